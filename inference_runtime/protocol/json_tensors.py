"""Tensor data as JSON numbers, booleans and strings ⇄ the bytes a tensor has on the wire.

Numbers that do not fit their datatype are refused (Triton would wrap them): a prediction on a wrapped
number looks right and is not.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, Final

import numpy as np
import orjson

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings
from inference_runtime.protocol.json_reader import TOO_DEEP
from inference_runtime.spec.datatypes import BY_WIRE, Datatype
from inference_runtime.spec.messages import Bytes

_DATA_DEPTH: Final = 100
# Long tensors are worked on piece by piece: one call over millions of elements would hold the interpreter,
# and with it everybody else, also from a thread.
_SLICE: Final = 16384
_Array = np.ndarray[Any, Any]


def decode(name: str, row: Datatype, count: int, data: Any) -> bytes:
    """The wire bytes of `data`, which must hold exactly `count` elements in any nesting."""
    if not row.in_json:
        raise InvalidArgument(
            f"receiving {row.wire} data via JSON is not supported. "
            f"Please use the binary data format for input {name}"
        )
    if type(data) is not list:
        raise InvalidArgument("Unable to parse 'data': attempt to access JSON non-array as array")
    flat = _flatten(data)
    packed = _pack(name, row, flat)
    if len(flat) > count:
        raise InvalidArgument(
            "Unable to parse 'data': Shape does not match true shape of 'data' field"
        )
    if len(flat) < count:
        raise InvalidArgument("Failed to parse 'data' field: shape does not match true shape")
    return packed


def encode(name: str, row: Datatype, data: Bytes) -> bytes:
    """`data` as the text of one flat JSON array."""
    if not row.in_json:
        raise InvalidArgument(
            f"sending {row.wire} data via JSON is not supported. "
            "Please use the binary data format for output"
        )
    if row.wire == "BYTES":
        return _encode_strings(name, data)
    if row.wire == "BOOL":
        return _in_slices(np.frombuffer(data, np.uint8), _encode_bools)
    values = np.frombuffer(data, row.dtype)
    return _in_slices(values, _encode_floats if values.dtype.kind == "f" else _encode_integers)


def _in_slices(values: _Array, encode_slice: Callable[[_Array], bytes]) -> bytes:
    if len(values) <= _SLICE:
        return encode_slice(values)
    pieces = [
        encode_slice(values[start : start + _SLICE])[1:-1]
        for start in range(0, len(values), _SLICE)
    ]
    return b"[" + b",".join(pieces) + b"]"


def _encode_bools(values: _Array) -> bytes:
    return orjson.dumps(values.astype(bool).tolist())


def _encode_integers(values: _Array) -> bytes:
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def _flatten(data: list[Any]) -> list[Any]:
    depth = 1
    while True:
        kinds = set(map(type, data))
        if list not in kinds:
            break
        depth += 1
        if depth >= _DATA_DEPTH:
            raise InvalidArgument(
                "Unable to parse 'data': JSON nesting depth exceeds maximum allowed limit "
                f"({_DATA_DEPTH})"
            )
        if len(kinds) == 1:
            data = list(chain.from_iterable(data))
        else:
            data = list(chain.from_iterable(x if type(x) is list else (x,) for x in data))
    return data


def _pack(name: str, row: Datatype, flat: list[Any]) -> bytes:
    kinds = _kinds(flat)
    if row.wire == "BYTES":
        _require(kinds <= {str} and TOO_DEEP not in flat, "non-string", "string")
        return byte_strings.pack([element.encode() for element in flat])
    if row.wire == "BOOL":
        _require(kinds <= {bool}, "non-boolean", "boolean")
        return bytes(flat)
    if row.dtype.kind == "f":
        _require(kinds <= {int, float}, "non-number", "double")
        return _pack_floats(name, row, flat)
    if row.dtype.kind == "u":
        _require(
            kinds <= {int} and min(flat, default=0) >= 0, "non-unsigned-integer", "unsigned-integer"
        )
    else:
        _require(kinds <= {int}, "non-signed-integer", "signed-integer")
    try:
        return _array(flat, row.dtype).tobytes()
    except OverflowError:
        bounds = np.iinfo(row.dtype.name)
        bad = next(value for value in flat if not bounds.min <= value <= bounds.max)
        raise _out_of_range(name, row, bad) from None


def _kinds(flat: list[Any]) -> set[type]:
    if len(flat) <= _SLICE:
        return set(map(type, flat))
    slices = (flat[start : start + _SLICE] for start in range(0, len(flat), _SLICE))
    return {kind for piece in slices for kind in set(map(type, piece))}


def _array(flat: list[Any], dtype: np.dtype[Any]) -> _Array:
    """Raises OverflowError for a number that does not fit."""
    if len(flat) <= _SLICE:
        return np.array(flat, dtype)
    slices = (flat[start : start + _SLICE] for start in range(0, len(flat), _SLICE))
    return np.concatenate([np.array(piece, dtype) for piece in slices])


def _pack_floats(name: str, row: Datatype, flat: list[Any]) -> bytes:
    try:
        wide = _array(flat, np.dtype(np.float64))
    except OverflowError:
        raise InvalidArgument(
            f"Unable to parse 'data': a value is out of range for datatype {row.wire} of input '{name}'"
        ) from None
    with np.errstate(over="ignore"):
        values = wide.astype(row.dtype)
    lost = np.isinf(values) & np.isfinite(wide)
    if lost.any():
        raise _out_of_range(name, row, wide[lost][0])
    return values.tobytes()


def _out_of_range(name: str, row: Datatype, value: Any) -> InvalidArgument:
    return InvalidArgument(
        f"Unable to parse 'data': value {value} is out of range for datatype {row.wire} of input '{name}'"
    )


def _require(holds: bool, found: str, wanted: str) -> None:
    if not holds:
        raise InvalidArgument(f"Unable to parse 'data': attempt to access JSON {found} as {wanted}")


def _encode_floats(values: _Array) -> bytes:
    # Widened, because clients expect the shortest decimal of the double and not of the float.
    wide = values.astype(np.float64)
    if np.isfinite(wide).all():
        return orjson.dumps(wide, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"[" + ",".join(map(_float_text, wide.tolist())).encode() + b"]"


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value == float("inf"):
        return "Infinity"
    return "-Infinity" if value == float("-inf") else repr(value)


def _encode_strings(name: str, data: Bytes) -> bytes:
    try:
        return orjson.dumps([element.decode() for element in byte_strings.unpack(data)])
    except UnicodeDecodeError:
        raise InvalidArgument(
            f"output '{name}' holds bytes that are not UTF-8 and can not be sent via JSON. "
            "Please use the binary data format for output"
        ) from None


def item_size(wire: str) -> int:
    """Bytes of one element; 0 for BYTES and for names that are no datatype."""
    row = BY_WIRE.get(wire)
    return row.item_size if row is not None else 0
