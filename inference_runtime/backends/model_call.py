"""One request as a backend sees it that answers request by request, and the way its answers take back."""

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any, Final

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.backpressure import Backpressure
from inference_runtime.spec.messages import Bytes, InferRequest

_LOOK_SECONDS = 1.0  # between two looks whether the event loop is there yet
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WireTensor:
    """A tensor in its wire form: little-endian, BYTES elements prefixed by their length."""

    name: str
    datatype: str
    shape: Shape
    data: Bytes


class Outputs(tuple[WireTensor, ...]):
    """Those of a response that has parameters of its own, which its client gets, too."""

    parameters: Mapping[str, Any]

    def __new__(cls, tensors: Iterable[WireTensor], parameters: Mapping[str, Any]) -> "Outputs":
        outputs = super().__new__(cls, tensors)
        outputs.parameters = parameters
        return outputs


# The outputs of one response, in any order; or why there is none.
Reply = Sequence[WireTensor] | RuntimeFault


class Reschedule(enum.Enum):
    """In place of a call's reply: no answer yet, the model wants the same request in a later batch.

    Only models with `iterative_sequence` may; the requests of others are answered with a fault.
    """

    RESCHEDULE = enum.auto()


RESCHEDULE: Final = Reschedule.RESCHEDULE
Send = Callable[["ModelCall", Reply | None, bool], None]


class Home:
    """Where a sequence has begun: what a model knows of it is in that process, and goes with it."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process = 0  # its number; 0: none yet. Written by the step that runs, one at a time.


class ModelCall:
    """Shapes are what the model sees: with the batch dimension, and with `reshape` applied."""

    __slots__ = (
        "_send",
        "ended",
        "gathered_ns",
        "home",
        "inputs",
        "outputs",
        "pace",
        "request",
        "started_ns",
    )

    def __init__(
        self,
        request: InferRequest,
        inputs: Sequence[WireTensor],
        outputs: Sequence[str],
        send: Send,
    ) -> None:
        self.request = request
        self.inputs = inputs  # those that the request gives, in the config's order
        self.outputs = outputs  # names of the outputs asked for
        self.home: Home | None = None  # of its sequence, if it is of one
        self.started_ns = 0
        self.gathered_ns = 0
        self.ended = False  # has had its last reply; its runner is the only writer
        self.pace: CallPace | None = None  # set where its responses may have to wait
        self._send = send

    @property
    def cancelled(self) -> bool:
        """Nobody waits for the answer any more; a model that looks may stop early."""
        return self.request.cancelled

    def send(self, reply: Reply | None, *, final: bool) -> None:
        """Any thread. None with `final` ends the call without another response; after that nothing counts."""
        self._send(self, reply, final)

    def wait(self) -> None:
        """Before a response that is not the last, on a thread of the backend's own: returns when it is welcome."""
        if self.pace is not None:
            self.pace.wait()


def are_at_home(calls: Sequence[ModelCall], process: int) -> bool:
    """Whether the sequences that go on with these calls have begun in that process; then others begin in it."""
    of_sequences = [(call.home, call.request.head) for call in calls if call.home is not None]
    if any(home.process != process for home, head in of_sequences if not head.sequence_start):
        return False
    for home, _ in of_sequences:
        home.process = process
    return True


class CallPace:
    """Of a call whose responses go to a step of an ensemble, which may not keep up."""

    def __init__(self, backpressure: Backpressure, loop: asyncio.AbstractEventLoop) -> None:
        self._backpressure = backpressure
        self._loop = loop
        self._left = backpressure.portion

    def wait(self) -> None:
        if self._left:
            self._left -= 1
            return
        self._left = self._backpressure.portion - 1
        welcome = self._backpressure.wait()
        try:
            future = asyncio.run_coroutine_threadsafe(welcome, self._loop)
        except RuntimeError:  # the loop has closed: nobody is left to wait for
            welcome.close()
            return
        while not (wait((future,), timeout=_LOOK_SECONDS).done or self._loop.is_closed()):
            pass
