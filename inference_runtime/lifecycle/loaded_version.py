"""A version that serves: its config, its scheduler, its statistics, and what is remembered about heads.

The scheduler and the statistics come from `inference_runtime.scheduling` and `.telemetry`; the
protocols below say what the router and the loader need of them.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from inference_runtime.spec.messages import InferRequest, RequestHead, ResponseHead
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


class LoadedVersion:
    """What a request is routed to; `number_text` is what the wire calls the version."""

    __slots__ = (
        "config",
        "labels",
        "name",
        "number",
        "number_text",
        "plans",
        "response_heads",
        "scheduler",
        "stats",
    )

    def __init__(
        self,
        *,
        name: str,
        number: int,
        config: ModelConfig,
        scheduler: VersionScheduler,
        stats: Any,
        labels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.name = name
        self.number = number
        self.number_text = str(number)
        self.config = config
        self.scheduler = scheduler
        self.stats = stats  # telemetry's counters of this version
        self.labels = labels or {}  # by output: the lines of its label file
        # Keyed by the head object itself, which hashes by identity and is kept alive by being the key.
        self.plans: dict[RequestHead, RequestPlan] = {}
        self.response_heads: dict[Any, ResponseHead] = {}
