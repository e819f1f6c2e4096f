"""A protobuf message as Triton's JSON: every field, enums by name, 64-bit integers as numbers."""

import base64
from typing import Any, Final

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# 64-bit integers are JSON numbers, except in these places, which Triton leaves as strings.
_NUMBERS_AS_STRINGS: Final = frozenset(
    {
        "inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim",
        "inference.ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound.Shape.dim",
        "inference.ModelSequenceBatching.InitialState.dims",
        "inference.ModelInstanceGroup.SecondaryDevice.device_id",
    }
)
_INT64: Final = frozenset(
    {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
)


_Field = Any  # a FieldDescriptor; protobuf's implementations each bring a class of their own


def message_json(message: Message) -> bytes:
    return orjson.dumps(message_fields(message))


def message_fields(message: Message) -> dict[str, Any]:
    """Every field of a present message, defaults included; absent sub-messages and oneofs left out."""
    fields: dict[str, Any] = {}
    field: _Field
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            entry = field.message_type.fields_by_name["value"]
            fields[field.name] = {str(key): _value(entry, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            fields[field.name] = [_value(field, item) for item in value]
        else:
            fields[field.name] = _value(field, value)
    return fields


def _is_map(field: _Field) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value(field: _Field, value: Any) -> Any:
    if field.message_type is not None:
        return message_fields(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.type in _INT64 and field.full_name in _NUMBERS_AS_STRINGS:
        return str(value)
    return value
