"""BYTES tensors: each element behind its length in four bytes, little-endian."""

import struct
from typing import Any

import numpy as np

_LENGTH = struct.Struct("<I")


def serialize_byte_tensor(input_tensor: Any) -> Any:
    """The bytes of all elements in C order; an empty tuple for an empty tensor, None for numbers."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type not in (np.bytes_, np.str_):
        return None
    return join(input_tensor)


def join(array: Any) -> bytes:
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for element in array.ravel().tolist():
        data = element if isinstance(element, bytes) else str(element).encode("utf-8")
        parts.append(pack(len(data)))
        parts.append(data)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor: Any) -> Any:
    """A one-dimensional object array of `bytes`; raises struct.error where the lengths do not fit."""
    data = memoryview(encoded_tensor).cast("B")
    end = len(data)
    unpack = _LENGTH.unpack_from
    elements: list[bytes] = []
    position = 0
    while position < end:
        (size,) = unpack(data, position)
        position += 4
        elements.append(bytes(data[position : position + size]))
        position += size
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array
