"""The counters of one loaded version; every request that ends is counted here once, and in its arm.

`VersionStats` starts at zero when a version is loaded and goes with it, as Triton's statistics do. Its
`arms` are shared by every load of the same version number and only ever grow (see `registry`). All
methods run on the event loop; an execution is one call, not one per request, to keep a request cheap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference_runtime.errors import FailureReason, RuntimeFault
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse
from inference_runtime.spec.model_config import InstanceSpec
from inference_runtime.telemetry.arm_stats import ArmStats
from inference_runtime.telemetry.cache_stats import VersionCacheStats
from inference_runtime.telemetry.durations import DurationDetail, ExecutionTimes
from inference_runtime.telemetry.response_stats import ResponseCounts


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is true of a version right now, asked of its scheduler when somebody reads."""

    pending: int = 0  # accepted, not started
    inflight: int = 0  # accepted, not settled
    instances: int = 0
    busy: int = 0


@dataclass(slots=True)
class BatchSizeStats:
    executions: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0


class DeviceStats:
    """Triton's counters of the instances on one device; `gpu_uuid` is empty for the CPU."""

    __slots__ = (
        "batch_sizes",
        "executions",
        "gpu_uuid",
        "infer_ns",
        "inferences",
        "input_ns",
        "output_ns",
        "queue_ns",
        "success_ns",
        "successes",
    )

    def __init__(self, gpu_uuid: str) -> None:
        self.gpu_uuid = gpu_uuid
        self.successes = 0
        self.success_ns = 0
        self.queue_ns = 0
        self.input_ns = 0
        self.infer_ns = 0
        self.output_ns = 0
        self.inferences = 0
        self.executions = 0
        self.batch_sizes: dict[int, BatchSizeStats] = {}


@dataclass(slots=True)
class InstanceStats:
    """Written by whoever executes on the instance, its thread or the event loop; never by two at once."""

    name: str
    device: str
    busy_ns: int = 0


@dataclass(frozen=True, slots=True)
class StatsSources:
    wall_ms: Callable[[], int]  # read once per execution, for `last_inference`
    gpu_uuid: Callable[[int], str] = str


class VersionStats:
    def __init__(
        self,
        *,
        model: str,
        version: int,
        arms: dict[str, ArmStats],
        sources: StatsSources,
        tags: Mapping[str, str] | None = None,
        detail: DurationDetail | None = None,
    ) -> None:
        self.model = model
        self.version = version
        self.tags = tags or {}
        self.arms = arms
        self.detail = detail
        self.load_seconds = 0.0
        self.last_inference_ms = 0
        # Accepted by the scheduler and not answered; what was refused before is only in `failures`.
        self.failed = 0
        self.failed_ns = 0
        self.failures = dict.fromkeys(FailureReason, 0)
        # The model's own set is there even when all instances are on GPUs.
        self.devices: dict[str, DeviceStats] = {"": DeviceStats("")}
        self.instances: dict[str, InstanceStats] = {}
        self.responses = ResponseCounts()
        # Of the requests that are being answered right now: for their traces.
        self.latest_execution: ExecutionTimes | None = None
        self.cache: VersionCacheStats | None = None  # of a version that uses the response cache
        self.gauges: Callable[[], Gauges] = Gauges
        self._sources = sources

    def device(self, gpu: int | None = None) -> DeviceStats:
        """The counters of the instances on one GPU, or of those on none."""
        uuid = "" if gpu is None else self._sources.gpu_uuid(gpu)
        return self.devices.setdefault(uuid, DeviceStats(uuid))

    def instance(self, spec: InstanceSpec) -> InstanceStats:
        """The same for as long as the version is loaded, whatever happens to its number of instances."""
        return self.instances.setdefault(spec.name, InstanceStats(spec.name, spec.device))

    def arm(self, name: str) -> ArmStats:
        arm = self.arms.get(name)
        if arm is None:
            arm = self.arms[name] = ArmStats(name)
        return arm

    def executed(
        self, device: DeviceStats, times: ExecutionTimes, rows: int, first: InferRequest
    ) -> None:
        """One execution took place, well or badly; its requests are counted by the calls below."""
        self.last_inference_ms = self._sources.wall_ms()
        device.executions += 1
        size = device.batch_sizes.get(rows)
        if size is None:
            size = device.batch_sizes[rows] = BatchSizeStats()
        size.executions += 1
        size.input_ns += times.gathered_ns - times.started_ns
        size.infer_ns += times.inferred_ns - times.gathered_ns
        size.output_ns += times.finished_ns - times.inferred_ns
        self.arm(first.arm).executions += 1

    def succeeded(
        self,
        device: DeviceStats,
        times: ExecutionTimes,
        requests: Sequence[InferRequest],
        now_ns: int,
        rows: int = 0,
    ) -> None:
        """All of `requests`, at least one and all of one execution, are answered now. `rows`: 0 is not known."""
        self.latest_execution = times
        count = len(requests)
        rows = rows or sum([request.plan.batch_size for request in requests])
        names = {request.arm for request in requests}
        if len(names) == 1:
            received_ns = self.arm(names.pop()).succeeded(requests, rows, times, now_ns)
        else:
            received_ns = 0
            for name in names:
                group = [request for request in requests if request.arm == name]
                arm_rows = sum([request.plan.batch_size for request in group])
                received_ns += self.arm(name).succeeded(group, arm_rows, times, now_ns)
        device.successes += count
        device.success_ns += count * now_ns - received_ns
        device.queue_ns += count * times.started_ns - received_ns
        device.input_ns += count * (times.gathered_ns - times.started_ns)
        device.infer_ns += count * (times.inferred_ns - times.gathered_ns)
        device.output_ns += count * (times.finished_ns - times.inferred_ns)
        device.inferences += rows
        if self.detail is not None:
            self.detail.succeeded(times, requests, now_ns)

    def use_cache(self) -> None:
        summaries = self.detail is not None and self.detail.summaries
        self.cache = self.cache or VersionCacheStats(summaries)

    def answered_from_cache(
        self, request: InferRequest, looked_up: tuple[int, int], now_ns: int
    ) -> None:
        """A success without inference or execution; `looked_up` is when the look-up began and ended."""
        assert self.cache is not None
        self.latest_execution = None
        began_ns, ended_ns = looked_up
        queue_ns = began_ns - request.received_ns
        self.arm(request.arm).answered_from_cache(request, queue_ns, now_ns)
        device = self.devices[""]
        device.successes += 1
        device.success_ns += now_ns - request.received_ns
        device.queue_ns += queue_ns
        self.cache.count_hit(ended_ns - began_ns)
        if self.detail is not None:
            self.detail.answered_from_cache(request, queue_ns, now_ns)

    def missed_cache(self, lookup_ns: int, insertion_ns: int) -> None:
        """Besides what an answered request counts; to insert the answer is part of its duration."""
        assert self.cache is not None
        self.devices[""].success_ns += insertion_ns
        self.cache.count_miss(lookup_ns + insertion_ns)

    def responded(self, request: InferRequest, answer: Answer, times: ExecutionTimes) -> None:
        """A decoupled model gave one answer; the end of the request is counted besides."""
        self.responses.add(request, answer, times)
        if request.responses == 0 and not _is_end(answer):
            request.first_response_ns = times.finished_ns
        request.responses += 1

    def failed_after_acceptance(
        self, request: InferRequest, fault: RuntimeFault, now_ns: int
    ) -> None:
        """A request the scheduler had accepted ends without an answer of the model."""
        self.failed += 1
        self.failed_ns += now_ns - request.received_ns
        # A model that blames the request has still failed to execute it: Triton says BACKEND.
        client = fault.reason is FailureReason.CLIENT
        self.failures[FailureReason.BACKEND if client else fault.reason] += 1
        self.arm(request.arm).failed(request, fault)
        if self.detail is not None:
            self.detail.failed(request, now_ns)

    def refused(self, request: InferRequest, fault: RuntimeFault) -> None:
        """A request that never entered the queue: the protocol keeps it out of `fail`, we count it once."""
        self.failures[fault.reason] += 1
        self.arm(request.arm).failed(request, fault)


def _is_end(answer: Answer) -> bool:
    """Word that no response follows, and no response."""
    return isinstance(answer, InferResponse) and answer.head.empty
