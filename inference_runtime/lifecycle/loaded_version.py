"""A version that serves: its config, its scheduler, its statistics, and what is remembered about heads."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from inference_runtime.backends.base import BackendFactory, InstanceHealth, LoadedInstance
from inference_runtime.repository.model_cache import ModelCopy
from inference_runtime.scheduling.scheduler import Scheduler
from inference_runtime.spec.messages import RequestHead
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.telemetry.stats import VersionStats


@dataclass(slots=True, eq=False)
class LoadedVersion:
    """What a request is routed to; `name` is the model's identity, `number_text` the version on the wire."""

    name: str
    number: int
    config: ModelConfig
    scheduler: Scheduler
    stats: VersionStats
    instances: tuple[LoadedInstance, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of outputs: label lines
    utf8_strings: bool = False  # the backend takes text: other bytes are refused at the door
    factory: BackendFactory | None = None  # what its instances were made by
    decoupled_steps: tuple[
        bool, ...
    ] = ()  # of an ensemble: what its models were when it was loaded
    copies: list[ModelCopy] = field(
        default_factory=list
    )  # files it stands on, held until it is gone
    number_text: str = field(init=False)
    # Keyed by the head object itself, which hashes by identity and is kept alive by being the key.
    plans: dict[RequestHead, RequestPlan] = field(default_factory=dict, init=False)

    # Of the copies that can die on their own, or whose model has a say.
    health: tuple[InstanceHealth, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.number_text = str(self.number)
        every = (instance.health for instance in self.instances)
        self.health = tuple(health for health in every if health is not None)

    @property
    def alive(self) -> bool:
        return not self.health or any(each.alive for each in self.health)

    @property
    def trouble(self) -> str:
        """Why no copy can execute."""
        return "" if self.alive else " ".join(each.trouble for each in self.health)

    async def check_ready(self) -> None:
        """Raises the fault of the first copy whose model objects; those that are dead are not asked."""
        if self.health:
            checks = [each.check_ready() for each in self.health if each.alive]
            await asyncio.gather(*checks)
