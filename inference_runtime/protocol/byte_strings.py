"""BYTES tensors on the wire: every element behind its 4-byte little-endian length."""

from collections.abc import Iterable
from struct import Struct

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes

_LENGTH = Struct("<I")


def pack(elements: Iterable[bytes]) -> bytes:
    parts: list[bytes] = []
    length = _LENGTH.pack
    for element in elements:
        parts.append(length(len(element)))
        parts.append(element)
    return b"".join(parts)


def unpack(data: Bytes) -> list[bytes]:
    """The elements; refuses data whose last element is cut short."""
    view = bytes(data)
    elements: list[bytes] = []
    position, end = 0, len(view)
    while position < end:
        if end - position < 4:
            raise InvalidArgument("incomplete string length indicator in a BYTES tensor")
        (length,) = _LENGTH.unpack_from(view, position)
        position += 4
        if end - position < length:
            raise InvalidArgument("incomplete string data in a BYTES tensor")
        elements.append(view[position : position + length])
        position += length
    return elements
