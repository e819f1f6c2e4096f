"""One request as a backend sees it that answers request by request, and the way its answers take back."""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.messages import Bytes, InferRequest

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


class ModelCall:
    """Shapes are what the model sees: with the batch dimension, and with `reshape` applied."""

    __slots__ = ("_send", "ended", "gathered_ns", "inputs", "outputs", "request", "started_ns")

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
        self.started_ns = 0
        self.gathered_ns = 0
        self.ended = False  # has had its last reply; its runner is the only writer
        self._send = send

    @property
    def cancelled(self) -> bool:
        """Nobody waits for the answer any more; a model that looks may stop early."""
        return self.request.cancelled

    def send(self, reply: Reply | None, *, final: bool) -> None:
        """Any thread. None with `final` ends the call without another response; after that nothing counts."""
        self._send(self, reply, final)
