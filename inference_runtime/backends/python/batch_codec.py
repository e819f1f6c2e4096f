"""A batch as one frame, and what the stub says about it as replies; the repeating parts travel once."""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from inference_runtime.backends.model_call import (
    RESCHEDULE,
    ModelCall,
    Outputs,
    Reply,
    Reschedule,
    WireTensor,
)
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import ArenaFull, Packer, Unpacker
from inference_runtime.backends.python.wire.frames import Buffer, Kind
from inference_runtime.errors import (
    AlreadyExists,
    Cancelled,
    FailureReason,
    Internal,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
    Unsupported,
)
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import RequestHead
from inference_runtime.spec.tensors import byte_size

_MAX_HEADS = 256
_START = 1
_END = 2
_RESCHEDULED = 1
_FAULTS: dict[str, type[RuntimeFault]] = {
    "UNKNOWN": RuntimeFault,
    "INTERNAL": Internal,
    "NOT_FOUND": NotFound,
    "INVALID_ARG": InvalidArgument,
    "UNAVAILABLE": Unavailable,
    "UNSUPPORTED": Unsupported,
    "ALREADY_EXISTS": AlreadyExists,
}


class BatchWriter:
    """Of one process: it remembers which heads the stub knows."""

    def __init__(self) -> None:
        self._heads: dict[Any, int] = {}
        self._numbers = itertools.count(1)

    def frame(
        self, calls: Sequence[tuple[int, ModelCall]], packer: Packer, free: Sequence[int]
    ) -> tuple[list[Buffer], dict[int, RuntimeFault]]:
        """The frame, and the numbers of the calls that are not in it, with the reason."""
        forget = len(self._heads) >= _MAX_HEADS
        if forget:
            self._heads.clear()
        heads: list[Any] = []
        entries: list[Any] = []
        left_out: dict[int, RuntimeFault] = {}
        for number, call in calls:
            mark = packer.mark()
            try:
                places = [packer.put(tensor.data) for tensor in call.inputs]
            except ArenaFull as full:
                packer.undo(mark)
                left_out[number] = arena_full(full)
                continue
            entry = [number, self._head(call, heads), call.request.id, places]
            if call.request.backpressure is not None:
                entry.append(call.request.backpressure.portion)
            entries.append(entry)
        text = orjson.dumps({"calls": entries, "heads": heads, "forget": forget, "free": free})
        return frames.frame(Kind.EXECUTE, text, packer.payload), left_out

    def _head(self, call: ModelCall, heads: list[Any]) -> int:
        head = call.request.head
        # Two requests of one head may differ in what the scheduler adds to their inputs.
        key = head, tuple([tensor.shape for tensor in call.inputs])
        number = self._heads.get(key)
        if number is None:
            number = self._heads[key] = next(self._numbers)
            heads.append([number, _described(head, call)])
        return number


def _described(head: RequestHead, call: ModelCall) -> dict[str, Any]:
    return {
        "inputs": [[tensor.name, tensor.datatype, tensor.shape] for tensor in call.inputs],
        "outputs": call.outputs,
        "parameters": dict(head.parameters),
        "correlation_id": head.sequence_id,
        "flags": _START * head.sequence_start | _END * head.sequence_end,
        "timeout": head.timeout_us,
        "priority": head.priority,
    }


def read_reply(answer: Any, tensors: Unpacker) -> Reply | Reschedule | None:
    """Raises when the stub says what no answer can be."""
    if isinstance(answer, int):
        return RESCHEDULE if answer == _RESCHEDULED else None
    if isinstance(answer, list):
        return [_output(entry, tensors) for entry in answer]
    if "e" in answer:
        return fault_of(str(answer["e"]), answer["c"])
    return Outputs([_output(entry, tensors) for entry in answer["o"]], answer["p"])


def fault_of(text: str, code: Any) -> RuntimeFault:
    """A model's own error; it counts as the backend's, whatever its code tells the client."""
    if code == "CANCELLED":
        return Cancelled(text)
    return _FAULTS.get(code, Internal)(text, reason=FailureReason.BACKEND)


def _output(entry: Any, tensors: Unpacker) -> WireTensor:
    name, datatype, dims, place = entry
    data = tensors.take(place)
    shape = tuple(dims)
    expected = _expected_size(datatype, shape)
    if expected not in (-1, len(data)):
        raise ValueError(f"output '{name}' of {datatype}{dims} in {len(data)} bytes")
    return WireTensor(str(name), datatype, shape, data)


@lru_cache(maxsize=1024)
def _expected_size(datatype: str, shape: tuple[int, ...]) -> int:
    """-1 for BYTES. Raises for what no tensor can be."""
    if datatype not in BY_WIRE or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"there is no tensor of {datatype}{shape}")
    return byte_size(datatype, shape)


def arena_full(full: ArenaFull) -> Internal:
    return Internal(
        f"Failed to increase the shared memory pool size: a tensor of {full.wanted} bytes does not fit "
        f"into what is free of {full.limit}; raise the backend option shm-max-byte-size"
    )
