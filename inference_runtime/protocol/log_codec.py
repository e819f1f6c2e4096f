"""The logging extension's bodies: settings as JSON and protobuf, and changes of them, read one by one."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.protocol import json_reader as read
from inference_runtime.telemetry.logs import FORMATS, LogSettings

Change = tuple[str, Any]  # a field of LogSettings and its new value

_FIELDS: Final = {
    "log_file": "file",
    "log_info": "info",
    "log_warning": "warning",
    "log_error": "error",
    "log_verbose_level": "verbose_level",
    "log_format": "format",
}
_KINDS: Final = {"bool": "bool_param", "int": "uint32_param", "str": "string_param"}
_NO_FILE: Final = "log file location can not be updated through network protocol"
_SWITCHES: Final = frozenset({"log_info", "log_warning", "log_error"})
_UINT32_MAX: Final = 2**32 - 1


def settings_json(settings: LogSettings) -> bytes:
    return orjson.dumps({key: getattr(settings, field) for key, field in _FIELDS.items()})


def settings_message(settings: LogSettings) -> pb.LogSettingsResponse:
    response = pb.LogSettingsResponse()
    for key, field in _FIELDS.items():
        value = getattr(settings, field)
        setattr(response.settings[key], _KINDS[type(value).__name__], value)
    return response


def changes_of_json(body: bytes | memoryview) -> Iterator[Change]:
    """In the order of the request; a fault ends them, and does not undo those before it."""
    for key, value in read.parse_object(body).items():
        if value is None or key not in _FIELDS:
            continue
        if key == "log_file":
            raise Unsupported(_NO_FILE)
        if key in _SWITCHES:
            yield _FIELDS[key], read.boolean(value, key)
        elif key == "log_verbose_level":
            level = read.unsigned(value, key)
            if level > _UINT32_MAX:
                raise InvalidArgument(f"Unable to parse '{key}': value is out of range")
            yield _FIELDS[key], level
        else:
            yield _FIELDS[key], _format(read.string(value, key), "--log_format")


def changes_of_message(settings: Mapping[str, Any]) -> Iterator[Change]:
    """Of a LogSettingsRequest's map."""
    if "log_file" in settings:
        raise Unsupported(_NO_FILE)
    for key, setting in settings.items():
        if key in _SWITCHES:
            yield _FIELDS[key], _choice(setting, "bool_param", f"expect boolean for '{key}'")
        elif key == "log_verbose_level":
            yield _FIELDS[key], _choice(setting, "uint32_param", f"expect int32 for '{key}'")
        elif key == "log_format":
            text = _choice(setting, "string_param", f"expect string for '{key}'")
            yield _FIELDS[key], _format(text, "log_format")


def _choice(setting: Any, kind: str, text: str) -> Any:
    if setting.WhichOneof("parameter_choice") != kind:
        raise InvalidArgument(text)
    return getattr(setting, kind)


def _format(text: str, called: str) -> str:
    if text not in FORMATS:
        raise InvalidArgument(f"invalid argument for {called}, got: {text}")
    return text
