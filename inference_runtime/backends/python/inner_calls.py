"""Models that call models: a stub's call becomes a request like a client's, its answers go back as they come.

Event loop only, and no thread waits for an answer: a call never needs a thread of its caller.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from inference_runtime.backends.base import BackendServices
from inference_runtime.backends.python.batch_codec import arena_full
from inference_runtime.backends.python.side_channel import SideChannel
from inference_runtime.backends.python.wire.arena import ArenaFull, Unpacker
from inference_runtime.backends.python.wire.frames import Kind
from inference_runtime.errors import (
    FailureReason,
    NotFound,
    RuntimeFault,
    SingleAnswerOnly,
    Unavailable,
)
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    RequestedOutput,
    RequestHead,
    TensorHead,
)

_MAX_HEADS = 256
# A call without a time limit of its own is looked at after this long, whether it is part of a circle.
_CIRCLE_SECONDS = 5.0
_NOT_READY = "Request for unknown model"


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call is part of, when its model said so: it is traced as that is."""

    parent: InferRequest


class InnerCalls:
    """Those of one process. `stuck(model)`: a call of that model by this process can never be answered.
    `parent(number)`: the request in the process' hands that has this number."""

    def __init__(
        self,
        services: BackendServices,
        channel: SideChannel,
        *,
        stuck: Callable[[str], bool],
        parent: Callable[[int], InferRequest | None],
    ) -> None:
        self._parent = parent
        self._loop = services.loop
        self._port: InferencePort = services.inference
        self._channel = channel
        self._stuck = stuck
        self._running: dict[int, InferRequest] = {}
        self._heads: dict[Any, RequestHead] = {}

    def begin(self, text: Any, tensors: Unpacker) -> None:
        """A CALL frame. Raises when the stub says what no call can be."""
        number: int = text["id"]
        data = [tensors.take(place) for *_, place in text["inputs"]]
        request = InferRequest(
            self._head(text),
            data,
            lambda request, answer: self._answered(number, answer, final=True),
            self._context(text["trace"]),
            time.monotonic_ns(),
            str(text["request_id"]),
        )
        if text["decoupled"]:
            request.partial = lambda request, answer: self._answered(number, answer, final=False)
        self._running[number] = request
        limit = request.head.timeout_us / 1e6 or _CIRCLE_SECONDS
        self._loop.call_later(limit, self._end_circle, number)
        self._port.infer(request)

    def cancel(self, number: int) -> None:
        request = self._running.get(number)
        if request is not None:
            self._port.cancel(request)

    def _context(self, number: int) -> "CallContext | None":
        parent = self._parent(number) if number else None
        return CallContext(parent) if parent is not None else None

    def models(self) -> Collection[str]:
        """Those whose answers it waits for."""
        return {request.head.model_name for request in self._running.values()}

    def _end_circle(self, number: int) -> None:
        request = self._running.get(number)
        if request is None or not self._stuck(request.head.model_name):
            return
        model = request.head.model_name
        fault = Unavailable(
            f"Model {model} - the call can not be answered: every instance that could answer it waits, "
            "itself or through the models it calls, for this one"
        )
        fault.reason = FailureReason.OTHER
        self._answered(number, fault, final=True)
        self._port.cancel(request)

    def close(self) -> None:
        """The process is gone."""
        for number in list(self._running):
            request = self._running.pop(number)
            self._port.cancel(request)

    def _head(self, text: Any) -> RequestHead:
        inputs = tuple(
            [(name, datatype, tuple(shape)) for name, datatype, shape, _ in text["inputs"]]
        )
        key = text["model"], text["version"], inputs, tuple(text["outputs"])
        # Calls that repeat share a head, which the router need not check again.
        plain = not (text["parameters"] or text["correlation_id"] or text["timeout"])
        head = self._heads.get(key) if plain else None
        if head is not None:
            return head
        version: int = text["version"]
        head = RequestHead(
            model_name=text["model"],
            version=str(version) if version > 0 else "",
            inputs=tuple([TensorHead(*each) for each in inputs]),
            outputs=tuple([RequestedOutput(name) for name in text["outputs"]]),
            parameters=dict(text["parameters"]),
            timeout_us=int(text["timeout"]),
            sequence_id=text["correlation_id"],
            sequence_start=bool(text["flags"] & 1),
            sequence_end=bool(text["flags"] & 2),
        )
        if plain:
            if len(self._heads) >= _MAX_HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head

    def _answered(self, number: int, answer: Answer, *, final: bool) -> None:
        request = self._running.pop(number, None) if final else self._running.get(number)
        if request is None:
            return
        packer = self._channel.packer()
        body: Any
        if isinstance(answer, InferResponse):
            try:
                body = {
                    "o": [
                        [output.name, output.datatype, output.shape, packer.put(data)]
                        for output, data in zip(answer.head.outputs, answer.data, strict=True)
                    ],
                    "p": dict(answer.head.parameters),
                }
            except ArenaFull as full:
                packer.undo((0, 0))
                body = _error(arena_full(full), "")
            if answer.head.empty:
                body = None
        else:
            body = _error(answer, request.head.model_name)
        self._channel.post(
            Kind.CALL_ANSWER, {"id": number, "final": final, "answer": body}, packer.payload
        )


def _error(fault: RuntimeFault, model: str) -> dict[str, str]:
    text = fault.text
    if isinstance(fault, SingleAnswerOnly):
        text = (
            f"Model {model} is using the decoupled. The current BLS request call doesn't support models "
            "using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' "
            "or 'async_exec' calls for decoupled models.'"
        )
    elif isinstance(fault, NotFound | Unavailable) and text.startswith(_NOT_READY):
        text = f"Failed for execute the inference request. Model '{model}' is not ready."
    elif fault.reason in (FailureReason.CLIENT, FailureReason.REJECTED):
        text = f"Model {model} - Error when running inference: {text}"
    code = fault.code.name if fault.code.name != "DEADLINE" else "UNAVAILABLE"
    return {"e": text, "c": code}
