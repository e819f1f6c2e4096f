"""Tensors as bytes and as arrays: element counts, the wire form of BYTES, reshape between client and backend."""

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.model_config import TensorSpec

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# The protocol's own limit; Python's integers cannot overflow on the way there.
MAX_ELEMENTS = 2**63 - 1
_LENGTH = struct.Struct("<I")
# Elements are counted one by one up to here.
_MANY_BYTES = 4096


class BytesFramingError(ValueError):
    """The length-prefixed form of BYTES is broken; `left` bytes remain where `wanted` are needed."""

    def __init__(self, wanted: int, left: int, *, in_length: bool) -> None:
        super().__init__(f"{wanted} bytes wanted, {left} left")
        self.wanted = wanted
        self.left = left
        self.in_length = in_length  # the 4-byte length itself is cut short


def element_count(shape: Iterable[int]) -> int:
    return math.prod(shape)


def byte_size(datatype: str, shape: Iterable[int]) -> int:
    """-1 for BYTES, whose size only the data knows."""
    item_size = BY_WIRE[datatype].item_size
    return element_count(shape) * item_size if item_size else -1


def shape_text(shape: Sequence[int]) -> str:
    """`[1,16]`, as Triton writes shapes in messages."""
    return "[" + ",".join(map(str, shape)) + "]"


def split_bytes(data: bytes | bytearray | memoryview) -> list[bytes]:
    """The elements of a BYTES tensor; raises BytesFramingError."""
    data = bytes(data)
    end = len(data)
    elements: list[bytes] = []
    position = 0
    unpack = _LENGTH.unpack_from
    while position < end:
        if end - position < 4:
            raise BytesFramingError(4, end - position, in_length=True)
        size = unpack(data, position)[0]
        position += 4
        if end - position < size:
            raise BytesFramingError(size, end - position, in_length=False)
        elements.append(data[position : position + size])
        position += size
    return elements


def count_bytes(data: bytes | bytearray | memoryview, limit: int) -> int:
    """How many elements a BYTES tensor holds, counting no further than limit + 1."""
    end = len(data)
    if end > _MANY_BYTES and _are_equally_long(data, limit):
        return limit
    position = 0
    count = 0
    unpack = _LENGTH.unpack_from
    while position < end and count <= limit:
        if end - position < 4:
            raise BytesFramingError(4, end - position, in_length=True)
        size = unpack(data, position)[0]
        if end - position - 4 < size:
            raise BytesFramingError(size, end - position - 4, in_length=False)
        position += 4 + size
        count += 1
    return count


def _are_equally_long(data: bytes | bytearray | memoryview, count: int) -> bool:
    """Whether it is just so many elements of one length: found in a glance, however many they are."""
    if not count or len(data) % count:
        return False
    stride = len(data) // count
    if stride < _LENGTH.size:
        return False
    lengths = np.frombuffer(data, np.uint8).reshape(count, stride)[:, : _LENGTH.size]
    expected = np.frombuffer(_LENGTH.pack(stride - _LENGTH.size), np.uint8)
    return bool((lengths == expected).all())


def join_bytes(elements: Iterable[bytes]) -> bytes:
    """The wire form of BYTES elements."""
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for element in elements:
        parts.append(pack(len(element)))
        parts.append(element)
    return b"".join(parts)


def to_array(datatype: str, shape: Shape, data: bytes | bytearray | memoryview) -> Array:
    """The array a backend takes: a view of `data`, or an object array of `bytes` for BYTES."""
    if datatype == "BYTES":
        return bytes_array(split_bytes(data), shape)
    if datatype == "BOOL":
        # Any non-zero byte is true on the wire, but numpy and backends expect 0 or 1.
        truth: Array = np.frombuffer(data, np.uint8) != 0
        return truth.reshape(shape)
    return np.frombuffer(data, BY_WIRE[datatype].dtype).reshape(shape)


def bytes_array(elements: Sequence[bytes], shape: Shape) -> Array:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape)


def to_wire(datatype: str, array: Array) -> bytes | memoryview:
    """The wire form of a backend's output; fixed-size types are a view that keeps the array alive."""
    if datatype == "BYTES":
        return join_bytes(array.ravel().tolist())
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data


def backend_shape(spec: TensorSpec, shape: Shape, *, batching: bool) -> Shape:
    """A client's shape of an input as its backend sees it: `reshape`, with each -1 filled in its order."""
    return _rewrite(spec.dims, spec.reshape, shape, batching=batching)


def client_shape(spec: TensorSpec, shape: Shape, *, batching: bool) -> Shape:
    """A backend's shape of an output as clients see it: the config's `dims` again."""
    if spec.reshape is None:
        return shape
    return _rewrite(spec.reshape, spec.dims, shape, batching=batching)


def _rewrite(source: Shape, target: Shape | None, shape: Shape, *, batching: bool) -> Shape:
    if target is None:
        return shape
    lead = shape[:1] if batching else ()
    rest = shape[1:] if batching else shape
    free = [size for size, dim in zip(rest, source, strict=False) if dim == -1]
    filled = iter(free)
    return lead + tuple(next(filled, 1) if dim == -1 else dim for dim in target)
