"""A model calls a model: the call goes to the server, the responses come back one by one."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from inference_runtime.backends.python.stub.errors import TritonError, TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.stub.link import PROCESS
from inference_runtime.backends.python.stub.responses import InferenceResponse, full_text
from inference_runtime.backends.python.stub.tensors import Tensor
from inference_runtime.backends.python.wire.arena import ArenaFull, Unpacker
from inference_runtime.backends.python.wire.frames import Kind

_numbers = itertools.count(1)
_running: dict[int, ResponseIterator] = {}


class Call(NamedTuple):
    model: str
    version: int
    inputs: Sequence[Tensor]
    outputs: Sequence[str]
    details: dict[str, Any]


class ResponseIterator:
    """The responses as they come; a second `for` starts again from the first."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._responses: list[InferenceResponse] = []
        self._ended = False
        self._waiting: Callable[[], object] | None = (
            None  # for the first response, without a thread
        )
        self._changed = threading.Condition()

    def __iter__(self) -> Iterator[InferenceResponse]:
        for index in itertools.count():
            with self._changed:
                while len(self._responses) <= index and not self._ended:
                    self._changed.wait()
                if len(self._responses) <= index:
                    return
                response = self._responses[index]
            yield response

    def cancel(self) -> None:
        PROCESS.link.post(Kind.CANCEL_CALL, {"id": self._number})

    def only(self) -> InferenceResponse:
        """Blocks until it is there."""
        for response in self:
            return response
        return InferenceResponse(error=TritonError("Unexpected empty response."))

    async def only_later(self) -> InferenceResponse:
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        with self._changed:
            if not (self._responses or self._ended):
                self._waiting = partial(loop.call_soon_threadsafe, there.set)
            else:
                there.set()
        await there.wait()
        return self.only()

    def add(self, response: InferenceResponse | None, *, final: bool) -> None:
        with self._changed:
            if response is not None:
                self._responses.append(response)
            self._ended = final
            self._changed.notify_all()
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            with suppress(RuntimeError):  # the model's loop has closed
                waiting()


def begin(call: Call, *, decoupled: bool) -> ResponseIterator:
    """Raises TritonModelException where calls are not possible; all other faults come as responses."""
    if PROCESS.phase != "execute":
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    number = next(_numbers)
    responses = ResponseIterator(number)
    packer = PROCESS.link.packer()
    mark = packer.mark()
    try:
        inputs = [
            [each.name(), each.datatype, each.shape(), packer.put(each.wire())]
            for each in call.inputs
        ]
    except ArenaFull as full:
        packer.undo(mark)
        responses.add(InferenceResponse(error=TritonError(full_text(full))), final=True)
        return responses
    _running[number] = responses
    text = {
        "id": number,
        "model": call.model,
        "version": call.version,
        "inputs": inputs,
        "outputs": list(call.outputs),
        "decoupled": decoupled,
        **call.details,
    }
    PROCESS.link.post_text(Kind.CALL, dumps(text), packer.payload)
    return responses


def answered(text: Any, tensors: Unpacker) -> None:
    """Handler of CALL_ANSWER."""
    number, final = text["id"], text["final"]
    responses = _running.pop(number, None) if final else _running.get(number)
    if responses is None:
        return
    answer = text["answer"]
    if answer is None:
        responses.add(None, final=final)
    elif "e" in answer:
        error = TritonError(answer["e"], answer["c"])
        responses.add(InferenceResponse(error=error), final=final)
    else:
        outputs = [
            Tensor.received(name, datatype, shape, tensors.take(place))
            for name, datatype, shape, place in answer["o"]
        ]
        response = InferenceResponse(outputs)
        response.set_received_parameters(answer["p"])
        responses.add(response, final=final)
