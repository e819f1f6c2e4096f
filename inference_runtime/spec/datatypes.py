"""One table of data types: wire name, config name, numpy dtype, item size, JSON or not."""

from dataclasses import dataclass

import numpy as np

from inference_runtime import pb


@dataclass(frozen=True, slots=True)
class Datatype:
    wire: str  # "FP32", "BYTES": what clients see
    config: str  # "TYPE_FP32", "TYPE_STRING": what config.pbtxt says
    dtype: np.dtype[np.generic]  # of the arrays a backend takes and gives
    item_size: int  # bytes on the wire; 0 for BYTES, whose elements carry their own length
    in_json: bool

    @property
    def number(self) -> int:
        return int(pb.DataType.Value(self.config))


def _row(wire: str, config: str, dtype: str, item_size: int, in_json: bool = True) -> Datatype:
    return Datatype(wire, config, np.dtype(dtype), item_size, in_json)


# BF16 travels as its bits: numpy has no such type, and only ONNX Runtime needs to know better.
DATATYPES: tuple[Datatype, ...] = (
    _row("BOOL", "TYPE_BOOL", "bool", 1),
    _row("UINT8", "TYPE_UINT8", "uint8", 1),
    _row("UINT16", "TYPE_UINT16", "<u2", 2),
    _row("UINT32", "TYPE_UINT32", "<u4", 4),
    _row("UINT64", "TYPE_UINT64", "<u8", 8),
    _row("INT8", "TYPE_INT8", "int8", 1),
    _row("INT16", "TYPE_INT16", "<i2", 2),
    _row("INT32", "TYPE_INT32", "<i4", 4),
    _row("INT64", "TYPE_INT64", "<i8", 8),
    _row("FP16", "TYPE_FP16", "<f2", 2, in_json=False),
    _row("FP32", "TYPE_FP32", "<f4", 4),
    _row("FP64", "TYPE_FP64", "<f8", 8),
    _row("BYTES", "TYPE_STRING", "object", 0),
    _row("BF16", "TYPE_BF16", "<u2", 2, in_json=False),
)

BY_WIRE: dict[str, Datatype] = {row.wire: row for row in DATATYPES}
BY_CONFIG: dict[str, Datatype] = {row.config: row for row in DATATYPES}
BY_NUMBER: dict[int, Datatype] = {row.number: row for row in DATATYPES}


def config_name(wire: str) -> str:
    """`TYPE_STRING` for `BYTES`; `TYPE_INVALID` for a name that is none."""
    row = BY_WIRE.get(wire)
    return row.config if row is not None else "TYPE_INVALID"


def wire_name(number: int) -> str:
    """The protocol's name for a config enum value; "" for TYPE_INVALID."""
    row = BY_NUMBER.get(number)
    return row.wire if row is not None else ""
