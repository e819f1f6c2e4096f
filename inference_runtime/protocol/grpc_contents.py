"""Typed tensor contents of a ModelInferRequest → the bytes a tensor has on the wire."""

from itertools import islice
from typing import Any, Final

import numpy as np

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings
from inference_runtime.spec.datatypes import BY_WIRE

_FIELDS: Final = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_SLICE: Final = 65536
# What each field stands for in messages, when it was not expected.
_HOLDS: Final = {
    "bool_contents": "BOOL",
    "int_contents": "INT32",
    "int64_contents": "INT64",
    "uint_contents": "UINT32",
    "uint64_contents": "UINT64",
    "fp32_contents": "FP32",
    "fp64_contents": "FP64",
    "bytes_contents": "BYTES",
}


def pack(entry: Any, model_name: str) -> bytes:
    """The data of one InferInputTensor, whose datatype is known to exist."""
    contents: pb.InferTensorContents = entry.contents
    expected = _FIELDS.get(entry.datatype, "")
    filled = [field.name for field, _ in contents.ListFields()]
    for field in filled:
        if field != expected or len(filled) > 1:
            raise _unexpected(entry, model_name, field, field == expected)
    if not expected:
        raise _unexpected(entry, model_name, "", False)
    values = getattr(contents, expected)
    if expected == "bytes_contents":
        return byte_strings.pack(values)
    return _pack_numbers(entry, values)


def _pack_numbers(entry: Any, values: Any) -> bytes:
    row = BY_WIRE[entry.datatype]
    wide = _array(values, _wide(row.dtype))
    narrow = wide.astype(row.dtype)
    if row.dtype.kind in "iu" and not (narrow == wide).all():
        raise InvalidArgument(
            f"a value of input tensor '{entry.name}' is out of range for datatype '{entry.datatype}'"
        )
    return narrow.tobytes()


def _array(values: Any, dtype: np.dtype[np.generic]) -> np.ndarray[Any, Any]:
    """In slices: one pass over millions of elements would hold the interpreter, also from a thread."""
    source = iter(values)
    array = np.empty(len(values), dtype)
    for start in range(0, len(array), _SLICE):
        count = min(_SLICE, len(array) - start)
        array[start : start + count] = np.fromiter(islice(source, count), dtype, count)
    return array


def _wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type protobuf carries narrow integers in: nothing wraps before it was compared."""
    if dtype.kind == "i":
        return np.dtype("<i8")
    return np.dtype("<u8") if dtype.kind == "u" else dtype


def _unexpected(entry: Any, model_name: str, field: str, right_one: bool) -> InvalidArgument:
    start = (
        f"unexpected explicit tensor data for input tensor '{entry.name}' for model '{model_name}'"
    )
    if right_one:
        return InvalidArgument(f"{start}, binary data was already supplied.")
    found = _HOLDS.get(field, entry.datatype)
    return InvalidArgument(f"{start} of type '{found}', expected datatype '{entry.datatype}'")
