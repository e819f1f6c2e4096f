"""What a decoupled model gave, by the number of the response within its request."""

from dataclasses import dataclass

from inference_runtime.errors import FailureReason
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse
from inference_runtime.telemetry.durations import ExecutionTimes

# A model may answer a request without end: what comes after this many is counted with the last of them.
MOST_INDEXES = 4096


@dataclass(slots=True)
class CountAndTime:
    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns


class ResponseStats:
    """Every duration runs from the start of the request's execution to the response."""

    __slots__ = ("cancel", "compute_infer", "compute_output", "empty_response", "fail", "success")

    def __init__(self) -> None:
        self.compute_infer = CountAndTime()
        self.compute_output = CountAndTime()
        self.success = CountAndTime()
        self.fail = CountAndTime()
        self.empty_response = CountAndTime()
        self.cancel = CountAndTime()

    def add(self, answer: Answer, times: ExecutionTimes) -> None:
        took_ns = times.finished_ns - times.started_ns
        if not isinstance(answer, InferResponse):
            if answer.reason is FailureReason.CANCELED:
                self.cancel.add(took_ns)
                return
            self.compute_infer.add(times.inferred_ns - times.gathered_ns)
            self.fail.add(took_ns)
            return
        self.compute_infer.add(times.inferred_ns - times.gathered_ns)
        if answer.head.empty:
            self.empty_response.add(took_ns)
            return
        self.compute_output.add(times.finished_ns - times.inferred_ns)
        self.success.add(took_ns)


class ResponseCounts:
    """The responses of one version, by their number."""

    __slots__ = ("by_index",)

    def __init__(self) -> None:
        self.by_index: dict[int, ResponseStats] = {}

    def add(self, request: InferRequest, answer: Answer, times: ExecutionTimes) -> None:
        index = min(request.responses, MOST_INDEXES - 1)
        stats = self.by_index.get(index)
        if stats is None:
            stats = self.by_index[index] = ResponseStats()
        stats.add(answer, times)
