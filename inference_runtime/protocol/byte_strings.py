"""BYTES tensors on the wire: every element behind its 4-byte little-endian length."""

from collections.abc import Iterable
from itertools import chain, islice
from struct import Struct
from typing import Final

import numpy as np

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes

_LENGTH: Final = Struct("<I")
_SLICE: Final = 65536


def pack(elements: Iterable[bytes]) -> bytes:
    """In slices, because millions of small objects at once would weigh fifty times their bytes."""
    source = iter(elements)
    out = bytearray()
    while block := list(islice(source, _SLICE)):
        out += _pack_slice(block)
    return bytes(out)


def _pack_slice(block: list[bytes]) -> bytes:
    sizes = set(map(len, block))
    if len(sizes) > 1:
        length = _LENGTH.pack
        return b"".join(chain.from_iterable((length(len(one)), one) for one in block))
    size = sizes.pop()
    table = np.empty((len(block), 4 + size), np.uint8)
    table[:, :4] = np.frombuffer(_LENGTH.pack(size), np.uint8)
    table[:, 4:] = np.frombuffer(b"".join(block), np.uint8).reshape(len(block), size)
    return table.tobytes()


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
