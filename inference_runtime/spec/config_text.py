"""config.pbtxt and its JSON form ⇄ protobuf."""

import json
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument

_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_][A-Za-z0-9_]*)\s*:")
_MAX_NESTING = 64


def config_from_text(text: str) -> pb.ModelConfig:
    """Raises InvalidArgument that names line and column."""
    try:
        proto = text_format.Parse(text, pb.ModelConfig())
        _check_enums(proto)
    except (text_format.ParseError, ValueError) as error:
        raise InvalidArgument(f"config.pbtxt can not be read: {error}") from error
    return proto


def config_to_text(proto: pb.ModelConfig) -> str:
    text: str = text_format.MessageToString(proto)
    return text


def config_from_json(text: str) -> pb.ModelConfig:
    """Takes snake_case and camelCase, enum names in any case; refuses unknown fields."""
    body = _loads(text)
    if not isinstance(body, dict):
        raise InvalidArgument("Invalid config override: a JSON object is expected")
    try:
        _upper_enums(body, pb.ModelConfig.DESCRIPTOR, _MAX_NESTING)
        proto = json_format.ParseDict(body, pb.ModelConfig())
        _check_enums(proto)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"Invalid config override: {error}") from error
    return proto


def config_to_json(proto: pb.ModelConfig) -> str:
    """Compact; without defaults. For a `config` parameter of a load, and to be kept on disk."""
    text: str = json_format.MessageToJson(proto, preserving_proto_field_name=True, indent=None)
    return text


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # Triton's reader takes unquoted keys, and one well-known example relies on it.
        try:
            return json.loads(_BARE_KEY.sub(r'\1"\2":', text))
        except (ValueError, RecursionError):
            raise InvalidArgument(f"Invalid config override: {error}") from error


def _upper_enums(body: dict[str, Any], message: Descriptor, depth: int) -> None:
    if depth == 0:
        raise ValueError("nested too deeply")
    fields = {name: field for field in message.fields for name in (field.name, field.json_name)}
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            continue  # json_format refuses it by name
        if field.type == FieldDescriptor.TYPE_ENUM:
            body[key] = _upper(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type is not None:
            for part, kind in _messages(value, field.message_type):
                _upper_enums(part, kind, depth - 1)


def _upper(value: Any) -> Any:
    if isinstance(value, list):
        return [_upper(entry) for entry in value]
    return value.upper() if isinstance(value, str) else value


def _messages(value: Any, kind: Descriptor) -> Iterable[tuple[dict[str, Any], Descriptor]]:
    if kind.GetOptions().map_entry:
        target = kind.fields_by_name["value"].message_type
        entries = list(value.values()) if isinstance(value, dict) else []
        if target is None:
            return []
        kind = target
    else:
        entries = value if isinstance(value, list) else [value]
    return [(entry, kind) for entry in entries if isinstance(entry, dict)]


def _check_enums(message: Message) -> None:
    """Raises ValueError for a number that stands for nothing, which protobuf would keep."""
    field: Any  # a FieldDescriptor; protobuf's implementations each bring a class of their own
    for field, value in message.ListFields():
        kind = field.message_type
        if field.enum_type is not None:
            for number in value if field.is_repeated else [value]:
                if number not in field.enum_type.values_by_number:
                    raise ValueError(f"'{field.name}' has no value {number}")
        elif kind is not None and kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].message_type is not None:
                for key in value:
                    _check_enums(value[key])
        elif kind is not None:
            for part in value if field.is_repeated else [value]:
                _check_enums(part)
