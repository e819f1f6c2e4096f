"""`preserve_ordering` inside a scheduler: no answer leaves before the last ones to requests with earlier places.

Answers to the request at the front leave as they come, also when there are several; those to others wait. A
request has its place from when it can be executed, not from its arrival: one that waits for others to end must
not hold them up.
"""

from collections import deque
from collections.abc import Callable

from inference_runtime.spec.messages import InferRequest

Leave = Callable[[], None]


class _Place:
    __slots__ = ("ended", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Leave] = deque()
        self.ended = False  # the last answer is there


class AnswerOrder:
    def __init__(self) -> None:
        self._line: deque[InferRequest] = deque()
        self._places: dict[InferRequest, _Place] = {}
        self._leaving = False

    def line_up(self, request: InferRequest) -> None:
        """Gives it the next place, if it has none."""
        if request not in self._places:
            self._places[request] = _Place()
            self._line.append(request)

    def answered(self, request: InferRequest, leave: Leave, *, last: bool) -> None:
        """`leave` is called when it is this answer's turn, perhaps before this returns."""
        place = self._places.get(request)
        if place is None:
            leave()
        elif not place.ended:
            place.waiting.append(leave)
            place.ended = last
            self._go_on()

    def left(self, request: InferRequest) -> None:
        """It has had its end, and nobody waits for it any more."""
        place = self._places.get(request)
        if place is not None:
            place.ended = True
            self._go_on()

    def _go_on(self) -> None:
        if self._leaving:
            return  # an answer led to another: the loop below comes to it
        self._leaving = True
        try:
            while self._line:
                place = self._places[self._line[0]]
                while place.waiting:
                    place.waiting.popleft()()
                if not place.ended:
                    return
                del self._places[self._line.popleft()]
        finally:
            self._leaving = False
