"""What front ends call: the runtime as one object, without a word of HTTP or gRPC. Event loop only."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from inference_runtime import __version__, pb
from inference_runtime.errors import (
    Internal,
    InvalidArgument,
    NotReady,
    RuntimeFault,
    Unavailable,
)
from inference_runtime.lifecycle.lifecycle import ModelLifecycle
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.lifecycle.start_up import ModelControlMode
from inference_runtime.repository.overrides import read_load_parameters
from inference_runtime.routing import introspection
from inference_runtime.routing.router import Router
from inference_runtime.routing.slots import Slots
from inference_runtime.routing.stale_answers import forget_answers_over
from inference_runtime.routing.traffic_store import TrafficStore
from inference_runtime.shared_memory.region_use import RegionUse
from inference_runtime.shared_memory.regions import Regions
from inference_runtime.spec.messages import Done, InferRequest
from inference_runtime.spec.region_span import RegionPlan
from inference_runtime.spec.states import IndexEntry
from inference_runtime.spec.traffic import TrafficTable, read_table, table_body
from inference_runtime.telemetry.logs import RuntimeLog
from inference_runtime.telemetry.snapshot import TrafficShare
from inference_runtime.telemetry.telemetry import Telemetry
from inference_runtime.telemetry.trace_settings import TraceOptions, TraceValues
from inference_runtime.telemetry.tracer import Tracer

logger = logging.getLogger(__name__)

_NO_CONTROL = "explicit model load / unload is not allowed if polling is enabled"


@dataclass(slots=True)
class CoreParts:
    registry: ModelRegistry
    lifecycle: ModelLifecycle
    traffic: TrafficStore
    telemetry: Telemetry
    mode: ModelControlMode = ModelControlMode.NONE
    server_id: str = "triton"
    strict_readiness: bool = True
    slots: Slots = field(default_factory=lambda: Slots(None))
    log: RuntimeLog = field(default_factory=RuntimeLog)
    tracer: Tracer = field(default_factory=Tracer)
    regions: Regions = field(default_factory=Regions)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class RuntimeCore:
    def __init__(self, parts: CoreParts) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._traffic = parts.traffic
        self._router = Router(parts.registry, parts.traffic)
        self._registry.on_change = self._changed
        parts.telemetry.traffic = self._shares
        parts.telemetry.unrouted = lambda: self._router.unrouted
        parts.telemetry.slots = parts.slots.readings
        self.slots = parts.slots.body
        self.slots_put = parts.slots.change
        self.log = parts.log
        self.regions = parts.regions
        # Called when what serves, or who gets the traffic, has changed.
        self.on_change: Callable[[], None] = lambda: None
        self._live = True
        self._started = False
        self._exiting = False
        # The two calls of the hot path, without a hop through this object.
        self.infer = self._router.infer  # … which gives way while requests are traced
        self.cancel = self._router.cancel
        self.count_refused = self._router.count_refused
        self.unit_header = self._router.unit_headers.get
        self._tracer = parts.tracer
        self._tracer.on_switch = self._switch_tracing
        self._switch_tracing()

    # Phases

    def restore_traffic(self) -> None:
        self._traffic.restore()
        self._router.rebuild()
        self.on_change()

    def started(self) -> None:
        """The models of the start are loaded, or are known not to load."""
        self._started = True
        self._router.started = True

    def failed(self) -> None:
        """Initialisation failed for good, and the process is kept to say so."""
        self._live = False

    def begin_exit(self) -> None:
        """Not ready any more, and no new request; those accepted before go on."""
        self._exiting = True
        self._switch_tracing()

    # Health

    def live(self) -> bool:
        if self._exiting:
            raise Unavailable("Server exiting")
        return self._live

    def ready(self) -> bool:
        if self._exiting:
            raise Unavailable("Server exiting")
        if not (self._live and self._started):
            return False
        return not self._parts.strict_readiness or self._registry.all_ready()

    def model_ready(self, name: str, version: str) -> bool:
        if self._exiting or not (self._live and self._started):
            raise Unavailable("Server not ready")
        try:
            return self._registry.find(name, version).alive
        except InvalidArgument:
            raise
        except RuntimeFault:
            return False

    async def confirm_ready(self, name: str = "", version: str = "") -> None:
        """Asks the models that have a say in it; "" is for all. Raises the fault of the first that objects."""
        if name:
            await self._registry.find(name, version).check_ready()
        elif self._parts.strict_readiness:
            checks = [loaded.check_ready() for loaded in self._registry.all_serving()]
            await asyncio.gather(*checks)

    def region_use(
        self, plan: RegionPlan, done: Done, *, local: bool, in_turn: bool = False
    ) -> RegionUse:
        """Raises RuntimeFault for a region that is not there, or not for this client."""
        refused = self._router.count_unrouted
        try:
            return RegionUse(
                self.regions, plan, done, local=local, in_turn=in_turn, refused=refused
            )
        except RuntimeFault as fault:
            refused(fault)
            raise

    def unit_headers(self) -> dict[str, str]:
        """By model, where a sticky table keys on one."""
        return dict(self._router.unit_headers)

    # What there is

    def server_metadata(self) -> dict[str, Any]:
        return introspection.server_metadata(
            self._parts.server_id, __version__, self._parts.slots.extensions
        )

    def model_metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        return introspection.model_metadata(self._registry, name, version)

    def model_config(self, name: str, version: str) -> pb.ModelConfig:
        return self._registry.find(name, version).config.proto

    async def repository_index(self, ready_only: bool) -> list[IndexEntry]:
        directories = await self._parts.lifecycle.found()
        return introspection.repository_index(self._registry, directories, ready_only=ready_only)

    def model_statistics(self, name: str, version: str) -> pb.ModelStatisticsResponse:
        return introspection.statistics(self._registry, name, version)

    def metrics_text(self) -> bytes:
        return self._parts.telemetry.metrics_text()

    def kv_cache_blocks(self) -> Mapping[str, float]:
        return self._parts.telemetry.kv_cache_blocks()

    def switchyard_statistics(self) -> dict[str, Any]:
        return self._parts.telemetry.switchyard_statistics(self._state_of)

    def inflight(self) -> dict[tuple[str, int], int]:
        """Versions with requests that are not settled → how many; those that left service included."""
        return {
            (loaded.name, loaded.number): loaded.scheduler.inflight
            for loaded in self._registry.at_work()
            if loaded.scheduler.inflight
        }

    # Traces

    @property
    def trace_options(self) -> TraceOptions:
        return self._tracer.options

    def trace_settings(self, model: str) -> TraceValues:
        self._check_traceable(model)
        return self._tracer.effective(model)

    def trace_change(self, model: str, changes: Mapping[str, Any]) -> TraceValues:
        self._check_traceable(model)
        return self._tracer.change(model, changes)

    def _check_traceable(self, model: str) -> None:
        if model and not self._registry.serving(model):
            raise InvalidArgument(f"Request for unknown model : {model}")

    def _switch_tracing(self) -> None:
        if self._exiting:
            self.infer = self._router.refuse
        else:
            self.infer = self._infer_traced if self._tracer.active else self._router.infer

    def _infer_traced(self, request: InferRequest) -> None:
        trace = self._tracer.begin(request)
        self._router.infer(request)
        if trace is not None:
            trace.queued()

    def infer_inner(self, request: InferRequest) -> None:
        """What models ask of models, which is traced with the request it is part of."""
        trace = self._tracer.begin_inner(request) if self._tracer.tracing else None
        self._router.infer(request)
        if trace is not None:
            trace.queued()

    # Changing what there is

    async def load(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._check_control()
        _check_name(name)
        try:
            asked = read_load_parameters(parameters)
        except InvalidArgument as fault:
            if fault.text.startswith("unrecognized"):
                raise
            raise Internal(
                f"failed to load '{name}', failed to poll from model repository: {fault.text}"
            ) from fault
        await self._to_the_end(self._parts.lifecycle.load_named(name, asked))

    async def unload(self, name: str, *, unload_dependents: bool) -> None:
        self._check_control()
        await self._to_the_end(
            self._parts.lifecycle.unload_named(name, dependents=unload_dependents)
        )

    @property
    def control(self) -> "_ModelControl":
        """Loading and unloading for models that manage others."""
        return _ModelControl(self)

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        # A client that goes away must not leave a change half done.
        task = asyncio.get_running_loop().create_task(work)
        self._parts.tasks.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._parts.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.debug("a change ended badly: %s", task.exception())

    def check_started(self) -> None:
        """Raises Unavailable before that."""
        if not self._started:
            raise Unavailable("the server is still starting")

    def _check_control(self) -> None:
        if self._exiting:
            raise Unavailable("Server exiting")
        if self._parts.mode is not ModelControlMode.EXPLICIT:
            raise Unavailable(_NO_CONTROL)

    # Traffic

    def traffic_tables(self) -> list[dict[str, Any]]:
        return [self._body(table) for table in self._traffic.tables()]

    def traffic_table(self, name: str) -> dict[str, Any]:
        return self._body(self._traffic.get(name))

    async def traffic_put(self, name: str, body: Any) -> dict[str, Any]:
        table = read_table(name, body)
        await self._to_the_end(self._put(table))
        return self._body(table)

    async def traffic_delete(self, name: str, generation: int | None = None) -> None:
        await self._to_the_end(self._delete(name, generation))

    async def _put(self, table: TrafficTable) -> None:
        async with self._traffic.changing:
            if self._traffic.check(table):
                self._check_arms(table)
                await self._keep(table.model, self._traffic.put(table))

    async def _delete(self, name: str, generation: int | None) -> None:
        async with self._traffic.changing:
            await self._keep(name, self._traffic.delete(name, generation))

    async def _keep(self, name: str, change: Coroutine[Any, Any, None]) -> None:
        try:
            await change
        except OSError as error:
            raise Internal(f"the traffic table can not be written: {error}") from error
        self._changed(name)

    def _changed(self, name: str) -> None:
        """Other versions of a model serve, or others get its traffic."""
        self._router.rebuild()
        forget_answers_over(self._registry, name)
        self.on_change()

    def _check_arms(self, table: TrafficTable) -> None:
        for arm in table.arms:
            if arm.weight_buckets and arm.version not in self._registry.serving(arm.model):
                raise InvalidArgument(
                    f"version {arm.version} of model '{arm.model}' is not ready: load it before it gets "
                    "traffic"
                )

    def _body(self, table: TrafficTable) -> dict[str, Any]:
        return {**table_body(table), "fallbacks": self._router.fallbacks(table.model)}

    def _shares(self) -> list[TrafficShare]:
        return [
            TrafficShare(model=arm.model, version=arm.version, arm=arm.role, share=arm.weight)
            for table in self._traffic.tables()
            for arm in table.arms
        ]

    def _state_of(self, model: str, version: int) -> str:
        record = self._registry.record(model)
        found = record.versions.get(version) if record is not None else None
        return found.state.value if found is not None else "UNKNOWN"


class _ModelControl:
    """Not while the models of the start are loaded: who waits for whom could become a circle."""

    def __init__(self, core: RuntimeCore) -> None:
        self._core = core

    async def load(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._core.check_started()
        await self._core.load(name, parameters)

    async def unload(self, name: str, *, unload_dependents: bool) -> None:
        self._core.check_started()
        await self._core.unload(name, unload_dependents=unload_dependents)

    async def ready(self, name: str, version: str) -> bool:
        self._core.check_started()
        if not self._core.model_ready(name, version):
            return False
        try:
            await self._core.confirm_ready(name, version)
        except NotReady:
            return False
        return True


def _check_name(name: str) -> None:
    if not name.strip():
        raise InvalidArgument("Model name cannot be empty. Please enter a valid name to deploy.")
    if "/" in name or name.strip() == "..":
        raise InvalidArgument("model name must not contain path traversal characters")
