"""Arrays between the server and an isolated backend, as bytes with their numpy type."""

from typing import Any

import numpy as np

from inference_runtime.backends.base import Array
from inference_runtime.backends.python.wire.arena import Packer, Unpacker
from inference_runtime.backends.python.wire.datatypes import BY_DTYPE, DTYPES
from inference_runtime.errors import Internal
from inference_runtime.spec.tensors import bytes_array, element_count, split_bytes, to_wire


def pack(array: Array, packer: Packer) -> list[Any]:
    """Raises ArenaFull. BF16 goes as the uint16 that it is to the server, too."""
    name = BY_DTYPE.get(array.dtype)
    if name is None:
        raise Internal(f"an array of type {array.dtype} can not be sent")
    return [name, array.shape, packer.put(to_wire(name, array))]


def unpack(entry: Any, tensors: Unpacker) -> Array:
    """Raises when the other side says what no array can be."""
    name, shape, place = entry
    data = tensors.take(place)
    if name == "BYTES":
        return bytes_array(split_bytes(data), tuple(shape))
    dtype = DTYPES[name]
    if len(data) != element_count(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for {name}{shape}")
    return np.frombuffer(data, dtype).reshape(shape)
