"""The few protobuf wire rules the hot path reads and writes by hand."""

from typing import Final

# Length-delimited fields of ModelInferRequest, as tag bytes.
ID: Final = 0x1A
RAW_INPUT: Final = 0x3A
# model_name, model_version, parameters, inputs, outputs
HEAD_FIELDS: Final = frozenset({0x0A, 0x12, 0x22, 0x2A, 0x32})

RAW_OUTPUT_TAG: Final = b"\x32"
RESPONSE_ID_TAG: Final = b"\x1a"
STREAM_RESPONSE_TAG: Final = b"\x12"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """(value, position behind it); position -1: not a length that fits into the buffer."""
    value = shift = 0
    while position < end and shift < 35:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position if value <= end - position else -1
        shift += 7
    return 0, -1
