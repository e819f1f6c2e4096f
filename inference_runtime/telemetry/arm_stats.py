"""The counters of one arm of a version's traffic: what its clients saw since the process started."""

from bisect import bisect_left
from collections.abc import Iterable

from inference_runtime.errors import FailureReason, RuntimeFault
from inference_runtime.spec.latency import BOUNDS_NS, BUCKETS
from inference_runtime.spec.messages import InferRequest
from inference_runtime.telemetry.durations import ExecutionTimes

# Without the last bound, so that the last bucket takes everything above.
_INNER_BOUNDS_NS = BOUNDS_NS[:-1]
_COUNTER = {
    FailureReason.REJECTED: "rejections",
    FailureReason.TIMEOUT: "timeouts",
    FailureReason.CANCELED: "cancellations",
    FailureReason.CLIENT: "client_faults",
    FailureReason.BACKEND: "failures",
    FailureReason.OTHER: "failures",
}


class ArmStats:
    __slots__ = (
        "arm", "cancellations", "client_faults", "compute_ns", "executions", "failures", "generation",
        "inferences", "latency", "latency_ns", "queue_ns", "rejections", "successes", "timeouts",
    )  # fmt: skip

    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.generation = 0
        self.successes = 0
        self.failures = 0
        self.client_faults = 0
        self.rejections = 0
        self.timeouts = 0
        self.cancellations = 0
        self.inferences = 0
        self.executions = 0
        self.queue_ns = 0
        self.compute_ns = 0
        self.latency_ns = 0
        self.latency = [0] * BUCKETS  # successful requests, from complete request to answer

    def succeeded(
        self, requests: Iterable[InferRequest], times: ExecutionTimes, now_ns: int
    ) -> tuple[int, int]:
        """Their rows, and the sum of the moments they were received: sums of durations follow from it."""
        started_ns = times.started_ns
        compute_ns = times.finished_ns - started_ns
        latency = self.latency
        count = rows = received_ns = generation = 0
        for request in requests:
            moment_ns = request.received_ns
            request.queue_ns = started_ns - moment_ns
            request.compute_ns = compute_ns
            latency[bisect_left(_INNER_BOUNDS_NS, now_ns - moment_ns)] += 1
            generation = request.generation
            count += 1
            rows += request.plan.batch_size
            received_ns += moment_ns
        self.generation = generation
        self.successes += count
        self.inferences += rows
        self.queue_ns += count * started_ns - received_ns
        self.compute_ns += count * compute_ns
        self.latency_ns += count * now_ns - received_ns
        return rows, received_ns

    def answered_from_cache(self, request: InferRequest, queue_ns: int, now_ns: int) -> None:
        request.queue_ns = queue_ns
        duration_ns = now_ns - request.received_ns
        self.latency[bisect_left(_INNER_BOUNDS_NS, duration_ns)] += 1
        self.generation = request.generation
        self.successes += 1
        self.queue_ns += queue_ns
        self.latency_ns += duration_ns

    def failed(self, request: InferRequest, fault: RuntimeFault) -> None:
        self.generation = request.generation
        counter = _COUNTER[fault.reason]
        setattr(self, counter, getattr(self, counter) + 1)

    @property
    def requests(self) -> int:
        return (
            self.successes
            + self.failures
            + self.client_faults
            + self.rejections
            + self.timeouts
            + self.cancellations
        )
