"""What a scheduler is, and which one a config gets."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.instances.execution_placement import ExecutionPlace, ExecutionPlacement
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.instances.request_runner import RequestRunner
from inference_runtime.instances.runner import BatchRunner
from inference_runtime.instances.runners import batch_runner, request_runner
from inference_runtime.scheduling.caching_scheduler import CachingScheduler
from inference_runtime.scheduling.dispatcher import Dispatcher, DispatcherParts
from inference_runtime.scheduling.dynamic_batcher import Batcher, DynamicBatcher, SingleBatcher
from inference_runtime.scheduling.hold import NO_HOLD, HeldBatcher, Hold
from inference_runtime.scheduling.inflight import Inflight
from inference_runtime.scheduling.limited_group import LimitedInstanceGroup
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.request_queue import RequestQueue
from inference_runtime.scheduling.resource_pools import Claimant
from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.sequence_batcher import batcher_for, slots_for
from inference_runtime.scheduling.sequence_lanes import Lane
from inference_runtime.scheduling.sequence_scheduler import SequenceParts, SequenceScheduler
from inference_runtime.spec.messages import InferRequest
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig
from inference_runtime.spec.sequence_config import SequenceBatching
from inference_runtime.telemetry.stats import Gauges, VersionStats

logger = logging.getLogger(__name__)

PLACEMENT_PARAMETER = "EXECUTION_PLACEMENT"


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What the schedulers of all versions have in common; None: switched off."""

    limiter: RateLimiter | None = None
    cache: ResponseCache | None = None
    hold: Hold = NO_HOLD


class Scheduler(Protocol):
    """Takes the requests of one version and settles each exactly once. Event loop only."""

    @property
    def pending(self) -> int:
        """Accepted and not yet started."""

    @property
    def inflight(self) -> int:
        """Accepted and not yet settled, the pending ones included."""

    def gauges(self) -> Gauges: ...

    def submit(self, request: InferRequest) -> None:
        """Never raises. The plan and the arm of the request are set; `done` may be called before this returns."""

    def cancel(self, request: InferRequest) -> None:
        """The caller is gone: a waiting request ends now with Cancelled, a running one when its execution does."""

    async def drain(self) -> None:
        """Refuses new requests; returns when the last one is settled and no thread touches a backend."""


def build_scheduler(
    *,
    model_name: str,
    version: int,
    config: ModelConfig,
    instances: Sequence[LoadedInstance],
    stats: VersionStats,
    shared: SharedParts = SharedParts(),
) -> Scheduler:
    """The scheduler of a loaded version; its counters and gauges are those of `stats`.

    Threads begin with the first batch that needs one and end with `drain`. Unloading the backends
    afterwards is the caller's. Passive instances get no work. Event loop only.
    """
    loop = asyncio.get_running_loop()
    active = [loaded for loaded in instances if not loaded.spec.passive]
    members, runners = _members(
        active, batch_runner(config, model_name=model_name, version=version), stats, loop
    )
    staff = _Staff(
        members,
        [loaded.spec for loaded in active],
        ExecutionPlacement(
            # The event loop is where it is, so a host policy needs a thread; and it waits for no process.
            ExecutionPlace.THREAD
            if runners or any(loaded.host_policy or loaded.health for loaded in active)
            else execution_place(config),
            instances=len(active),
            by_bytes=_has_free_sizes(config),
        ),
    )
    queueing: Dispatcher | SequenceScheduler
    if config.sequence_batching is None:
        queueing = _dispatcher(config, staff, stats, shared, loop)
    else:
        queueing = _sequence_scheduler(config, config.sequence_batching, staff, stats, shared)
    for instance, runner in runners:
        runner.deliver = partial(queueing.deliver, instance)
    scheduler = with_cache(queueing, config, stats, shared.cache)
    stats.gauges = scheduler.gauges
    return scheduler


@dataclass(slots=True)
class _Staff:
    """Who executes, by position, and where."""

    members: list[Instance]
    specs: list[InstanceSpec]
    placement: ExecutionPlacement


def _dispatcher(
    config: ModelConfig,
    staff: _Staff,
    stats: VersionStats,
    shared: SharedParts,
    loop: asyncio.AbstractEventLoop,
) -> Dispatcher:
    batching = config.dynamic_batching
    batcher: Batcher = (
        DynamicBatcher(batching, config.max_batch_size) if batching else SingleBatcher()
    )
    if shared.hold.requests and batching is not None:
        batcher = HeldBatcher(batcher, shared.hold)
    # Last of what may refuse the load: from here on its slots have to be given back.
    group = _group(staff.members, staff.specs, stats, shared.limiter)
    return Dispatcher(
        DispatcherParts(
            queue=RequestQueue(batching),
            batcher=batcher,
            group=group,
            placement=staff.placement,
            inflight=Inflight(stats, decoupled=config.decoupled),
            preserve_ordering=batching is not None and batching.preserve_ordering,
        ),
        loop=loop,
    )


def _sequence_scheduler(
    config: ModelConfig,
    sequences: SequenceBatching,
    staff: _Staff,
    stats: VersionStats,
    shared: SharedParts,
) -> SequenceScheduler:
    lanes: list[Lane] = []
    try:
        # A group for each instance: a sequence can not go to whichever is free.
        for member, spec in zip(staff.members, staff.specs, strict=True):
            group = _group([member], [spec], stats, shared.limiter)
            batcher = batcher_for(sequences, config.max_batch_size)
            process = member.process_number if member.remembers else None
            lanes.append(Lane(group, batcher, process))
    except RuntimeFault:
        for lane in lanes:
            lane.group.leave()
        raise
    return SequenceScheduler(
        SequenceParts(
            model=config.name,
            sequences=sequences,
            lanes=lanes,
            slots_per_lane=slots_for(sequences, config.max_batch_size),
            placement=staff.placement,
            inflight=Inflight(stats, decoupled=config.decoupled),
            hold=shared.hold,
        ),
        loop=asyncio.get_running_loop(),
    )


def with_cache(
    scheduler: Scheduler, config: ModelConfig, stats: VersionStats, cache: ResponseCache | None
) -> Scheduler:
    """The scheduler itself, or, where the config wants it and the server has a cache, one that asks it first."""
    if not config.proto.response_cache.enable:
        return scheduler
    if cache is None:
        logger.warning(
            "model '%s' enables the response cache, and this server has none: start it with "
            "--cache-config=local,size=<bytes>",
            config.name,
        )
        return scheduler
    stats.use_cache()
    batching = config.dynamic_batching
    return CachingScheduler(
        scheduler,
        cache,
        stats,
        preserve_ordering=batching is not None and batching.preserve_ordering,
    )


def _members(
    active: Sequence[LoadedInstance],
    shared: BatchRunner,
    stats: VersionStats,
    loop: asyncio.AbstractEventLoop,
) -> tuple[list[Instance], list[tuple[Instance, RequestRunner]]]:
    """The instances, and those that answer request by request with the runner of each."""
    members: list[Instance] = []
    runners: list[tuple[Instance, RequestRunner]] = []
    for loaded in active:
        device, work = stats.device(loaded.spec.gpu), stats.instance(loaded.spec)
        if not loaded.per_request:
            members.append(Instance(loaded, runner=shared, device=device, work=work, loop=loop))
            continue
        runner = request_runner(
            shared.config, model_name=shared.model_name, version=shared.version, loop=loop
        )
        instance = Instance(loaded, runner=runner, device=device, work=work, loop=loop)
        members.append(instance)
        runners.append((instance, runner))
    return members, runners


def _group(
    members: Sequence[Instance],
    specs: Sequence[InstanceSpec],
    stats: VersionStats,
    limiter: RateLimiter | None,
) -> InstanceGroup:
    """Raises InvalidArgument when the limiter has less than an instance needs."""
    if limiter is None or not any(spec.resources for spec in specs):
        return InstanceGroup(members)
    claimants = [Claimant.of(stats.model, stats.version, spec) for spec in specs]
    group = LimitedInstanceGroup(members, claimants, limiter)
    group.join()
    return group


def _has_free_sizes(config: ModelConfig) -> bool:
    return any(-1 in spec.dims or spec.datatype == "BYTES" for spec in config.inputs)


def execution_place(config: ModelConfig) -> ExecutionPlace:
    """What the config's EXECUTION_PLACEMENT asks for; raises InvalidArgument for a word that is none."""
    text = config.parameters.get(PLACEMENT_PARAMETER, ExecutionPlace.AUTO.value)
    try:
        return ExecutionPlace(text)
    except ValueError:
        choices = ", ".join(place.value for place in ExecutionPlace)
        raise InvalidArgument(
            f"parameter '{PLACEMENT_PARAMETER}' of model '{config.name}' must be one of {choices}, got '{text}'"
        ) from None
