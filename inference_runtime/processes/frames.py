"""What goes through a link: frames with one head for all kinds, and JSON where nothing is in a hurry.

size: 4 │ kind: 1 │ flags: 1 │ number: 4 │ ticket: 4 │ count: 8 │ body

Requests with the same head that come one after the other in one turn are one frame, and so are answers.
"""

import struct
from typing import Any, Final

import orjson

from inference_runtime.processes.ring import BrokenRing, Bytes

HEAD: Final = struct.Struct("<IBBxxIIQ")
HEAD_SIZE: Final = HEAD.size
pack_head: Final = HEAD.pack
unpack_head: Final = HEAD.unpack_from
# Tensors above this are views of the message they came in, those below it are copied out of it.
VIEW_FROM: Final = 16384

# To the executor. `ticket`: what the front end calls the request, or call.
# INFER: number: of the head; ticket: of the first, those of the others follow on it; count: of requests;
# body: when each was received, 8 bytes each, then the tensors of each, sized as the head says
INFER: Final = 1
INFER_MORE: Final = 2  # body: JSON of what else there is, then the tensors
REQUEST_HEAD: Final = 3  # number; body: JSON
FORGET: Final = 4  # all heads
CANCEL: Final = 5
CALL: Final = 6  # body: JSON of which, then what it is given
# Of requests that the front end has answered itself; number: 1 by the client's fault, else 0; ticket: how many
REFUSAL: Final = 7
# From it.
ANSWERS: Final = (
    19  # number: of the head; count; body: the tickets, 4 bytes each, then the tensors of each
)
ANSWER: Final = 20  # one, number: of the head; body: JSON of what else there is, then the tensors
FAULT: Final = 21  # body: JSON
RESPONSE_HEAD: Final = 22  # number; body: JSON
FORGET_RESPONSES: Final = 23
REPLY: Final = 24  # to a call; body: JSON, then what it gives
LOG_SETTINGS: Final = 25  # body: JSON

# Flags of answers and faults.
PARTIAL: Final = 1  # others follow
REFUSED: Final = 4  # before any scheduler took the request
FAILED: Final = 8  # of a reply: its JSON is a fault

_TEXT_SIZE: Final = struct.Struct("<I")


def with_text(value: Any, body: Bytes = b"") -> tuple[bytes, Bytes]:
    """Parts of a body of JSON and bytes behind it."""
    text = orjson.dumps(value)
    return _TEXT_SIZE.pack(len(text)) + text, body


def read_text(message: Bytes, start: int, stop: int) -> tuple[Any, int]:
    """The JSON, and where the bytes behind it begin. Raises BrokenRing."""
    if stop - start < _TEXT_SIZE.size:
        raise BrokenRing("a frame without its text")
    (size,) = _TEXT_SIZE.unpack_from(message, start)
    start += _TEXT_SIZE.size
    if size > stop - start:
        raise BrokenRing(f"a text of {size} bytes in a frame with {stop - start}")
    return read_json(message, start, start + size), start + size


def read_json(message: Bytes, start: int, stop: int) -> Any:
    try:
        return orjson.loads(bytes(message[start:stop]))
    except orjson.JSONDecodeError as error:
        raise BrokenRing(f"a frame that is no JSON: {error}") from error


def cut(message: Bytes, start: int, stop: int, sizes: tuple[int, ...]) -> list[Bytes]:
    """The tensors of a frame. Raises BrokenRing when they are not as long as was said."""
    if sum(sizes) != stop - start:
        raise BrokenRing(f"{stop - start} bytes of tensors, not {sum(sizes)}")
    view: Bytes = memoryview(message) if stop - start >= VIEW_FROM else message
    parts: list[Bytes] = []
    for size in sizes:
        parts.append(view[start : start + size])
        start += size
    return parts
