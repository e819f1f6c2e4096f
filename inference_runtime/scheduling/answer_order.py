"""`preserve_ordering` of sequences: no answer leaves before those to requests that were in slots earlier.

A request has its place from when its sequence has a slot: one in the backlog can only go on when others
do, and must not hold them up.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_runtime.scheduling.release_order import ReleaseOrder
from inference_runtime.scheduling.sequence_table import LiveSequence
from inference_runtime.spec.messages import Answer, InferRequest
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import DeviceStats


@dataclass(frozen=True, slots=True, eq=False)
class LateAnswer:
    sequence: LiveSequence
    request: InferRequest
    answer: Answer
    device: DeviceStats
    times: ExecutionTimes
    streamed: bool = False  # the last of several, perhaps, which came by itself


class AnswerOrder:
    def __init__(self) -> None:
        self._numbers: dict[InferRequest, int] = {}
        self._last = 0
        self._order: ReleaseOrder[LateAnswer | None] = ReleaseOrder()

    def line_up(self, request: InferRequest) -> None:
        """Gives it the next place, if it has none."""
        if request not in self._numbers:
            self._last += 1
            self._numbers[request] = self._last

    def ended(self, request: InferRequest, late: LateAnswer | None) -> Iterator[LateAnswer]:
        """What may leave now. `late` None: it has had its end, and nobody waits for it any more."""
        number = self._numbers.pop(request, 0)
        if number:
            for released in self._order.finished(number, late):
                if released is not None:
                    yield released
        elif late is not None:
            yield late
