"""The counters of one arm of a version's traffic: what its clients saw since the process started."""

from bisect import bisect_left
from collections.abc import Sequence

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
        self, requests: Sequence[InferRequest], rows: int, times: ExecutionTimes, now_ns: int
    ) -> int:
        """The sum of the moments they were received: sums of durations follow from it."""
        moments = [request.received_ns for request in requests]
        received_ns = sum(moments)
        count = len(moments)
        latency = self.latency
        # Requests of one batch waited about as long: most often one bucket takes them all.
        bucket = bisect_left(_INNER_BOUNDS_NS, now_ns - min(moments))
        if count == 1 or bucket == bisect_left(_INNER_BOUNDS_NS, now_ns - max(moments)):
            latency[bucket] += count
        else:
            for moment_ns in moments:
                latency[bisect_left(_INNER_BOUNDS_NS, now_ns - moment_ns)] += 1
        self.generation = requests[-1].generation
        self.successes += count
        self.inferences += rows
        self.queue_ns += count * times.started_ns - received_ns
        self.compute_ns += count * (times.finished_ns - times.started_ns)
        self.latency_ns += count * now_ns - received_ns
        return received_ns

    def answered_from_cache(self, request: InferRequest, queue_ns: int, now_ns: int) -> None:
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
