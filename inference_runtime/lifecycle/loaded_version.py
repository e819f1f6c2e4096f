"""A version that serves: its config, its scheduler, its statistics, and what is remembered about heads.

The scheduler and the statistics come from `inference_runtime.scheduling` and `.telemetry`; the
protocols below say what the router and the loader need of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.request_plan import RequestPlan


class VersionScheduler(Protocol):
    """Takes requests of one version and settles each exactly once. Event loop only.

    Made by `inference_runtime.scheduling.scheduler.build_scheduler(model_name=…, version=…, config=…,
    instances=[LoadedInstance, …], stats=…, loop=…)` after every instance has loaded.
    """

    @property
    def pending(self) -> int:
        """Requests accepted and not yet started."""

    @property
    def inflight(self) -> int:
        """Requests accepted and not yet settled, the pending ones included."""

    def submit(self, request: InferRequest) -> None:
        """Never raises. `request.version` (a LoadedVersion) and `request.plan` are set."""

    def cancel(self, request: InferRequest) -> None:
        """The caller is gone: a waiting request is settled with Cancelled, a running one when it ends."""

    async def drain(self) -> None:
        """Refuses new requests, returns when the last one is settled and no thread touches a backend."""


@dataclass(slots=True, eq=False)
class LoadedVersion:
    """What a request is routed to; `number_text` is what the wire calls the version."""

    name: str
    number: int
    config: ModelConfig
    scheduler: VersionScheduler
    stats: Any  # telemetry.stats.VersionStats
    instances: tuple[LoadedInstance, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of outputs: label lines
    utf8_strings: bool = False  # the backend takes text: other bytes are refused at the door
    number_text: str = field(init=False)
    # Keyed by the head object itself, which hashes by identity and is kept alive by being the key.
    plans: dict[RequestHead, RequestPlan] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.number_text = str(self.number)
