"""What goes to an instance and what comes back: a batch of requests, and one answer for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_runtime.spec.messages import Answer, InferRequest
from inference_runtime.telemetry.durations import ExecutionTimes


class Batch:
    """Requests executed together, in the order of their rows."""

    __slots__ = ("requests", "rows", "uniform")

    def __init__(
        self, requests: Sequence[InferRequest], rows: int, *, uniform: bool = False
    ) -> None:
        """`uniform`: the caller knows already that it is."""
        self.requests = requests
        self.rows = rows
        # All of one plan, the usual case, is joined and split without looking at each request.
        self.uniform = uniform or len(requests) == 1 or _uniform(requests)

    def input_bytes(self) -> int:
        return sum(len(data) for request in self.requests for data in request.data)


def _uniform(requests: Sequence[InferRequest]) -> bool:
    plans = [request.plan for request in requests]
    return plans.count(plans[0]) == len(plans)


@dataclass(slots=True)
class Execution:
    """`answers[i]` is for `batch.requests[i]`; `faulty` when any of them is a fault.

    `deferred`: an answer may be None, which comes later, or be for a request that has had its last one.
    `rescheduled`: those without an answer that are to be executed once more.
    """

    batch: Batch
    answers: Sequence[Answer | None]
    times: ExecutionTimes
    faulty: bool
    deferred: bool = False
    rescheduled: Sequence[InferRequest] = ()


def held_back(execution: Execution) -> Execution:
    """The same, with all its answers to come later."""
    nothing: list[Answer | None] = [None] * len(execution.answers)
    return replace(execution, answers=nothing, faulty=False, deferred=True)
