"""Bodies of everything that is not an inference: protobuf as Triton's JSON, index entries, load parameters."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader as read


class IndexEntry(Protocol):
    """One version, or a model that was never loaded (then `version` and `state` are empty)."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...


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


def index_json(entries: Iterable[IndexEntry]) -> bytes:
    rows: list[dict[str, str]] = []
    for entry in entries:
        row = {"name": entry.name}
        if entry.version:
            row["version"] = entry.version
        if entry.state:
            row["state"] = entry.state
        if entry.reason:
            row["reason"] = entry.reason
        rows.append(row)
    return orjson.dumps(rows)


def index_message(entries: Iterable[IndexEntry]) -> pb.RepositoryIndexResponse:
    response = pb.RepositoryIndexResponse()
    for entry in entries:
        response.models.add(
            name=entry.name, version=entry.version, state=entry.state, reason=entry.reason
        )
    return response


def read_ready_only(body: bytes | memoryview) -> bool:
    ready = read.parse_object(body).get("ready", False)
    if type(ready) is not bool:
        raise InvalidArgument("Invalid value for 'ready': expected a boolean")
    return ready


def read_load_parameters(body: bytes | memoryview) -> dict[str, Any]:
    """`config` as text, `file:<path>` as bytes."""
    document = read.parse_object(body)
    parameters: dict[str, Any] = {}
    for key, value in read.mapping(document.get("parameters", {}), "parameters").items():
        text = read.string(value, key)
        if key == "config":
            parameters[key] = text
        elif key.startswith("file:"):
            parameters[key] = _decoded(key, text)
        else:
            raise InvalidArgument("unexpected error on creating Triton parameter")
    return parameters


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(
            f"failed to decode load parameter '{key}' as base64: {error}"
        ) from error


def read_unload_dependents(body: bytes | memoryview) -> bool:
    parameters = read.mapping(read.parse_object(body).get("parameters", {}), "parameters")
    return read.boolean(parameters.get("unload_dependents", False), "unload_dependents")


def load_parameters(
    parameters: Mapping[str, pb.ModelRepositoryParameter],
) -> dict[str, Any]:
    """The same from a gRPC request, whose files are raw bytes."""
    found: dict[str, Any] = {}
    for key, parameter in parameters.items():
        kind = parameter.WhichOneof("parameter_choice")
        if key == "config":
            if kind != "string_param":
                raise InvalidArgument(
                    "invalid value type for load parameter 'config', expected string_param."
                )
            found[key] = parameter.string_param
        elif key.startswith("file:"):
            if kind != "bytes_param":
                raise InvalidArgument(
                    f"invalid value type for load parameter '{key}', expected bytes_param."
                )
            found[key] = parameter.bytes_param
        else:
            raise InvalidArgument(f"unrecognized load parameter '{key}'.")
    return found


def unload_dependents(parameters: Mapping[str, pb.ModelRepositoryParameter]) -> bool:
    """Keys besides `unload_dependents` are ignored."""
    if "unload_dependents" not in parameters:
        return False
    parameter = parameters["unload_dependents"]
    if parameter.WhichOneof("parameter_choice") != "bool_param":
        raise InvalidArgument(
            "invalid value type for 'unload_dependents' parameter, expected bool_param."
        )
    return bool(parameter.bool_param)
