"""The trace extension's bodies: settings in force, and changes of them, as JSON and protobuf."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.protocol import json_reader as read
from inference_runtime.telemetry.trace_settings import (
    LEVELS,
    TraceMode,
    TraceOptions,
    TraceValues,
)

Changes = dict[str, Any]  # fields of the settings; None: back to what is inherited

OFF: Final = "OFF"
_LEVEL: Final = "trace_level"
_NO_FILE: Final = "trace file location can not be updated through network protocol"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")
# (field, least, most)
_NUMBERS: Final = {
    "trace_rate": ("rate", 0, 2**32 - 1),
    "trace_count": ("count", -1, 2**31 - 1),
    "log_frequency": ("log_frequency", 0, 2**32 - 1),
}


def settings(values: TraceValues, options: TraceOptions) -> dict[str, str | list[str]]:
    """Everything is text; in the protocol's order."""
    found: dict[str, str | list[str]] = {
        _LEVEL: list(values.levels) or [OFF],
        "trace_rate": str(values.rate),
        "trace_count": str(values.count),
    }
    if options.mode is TraceMode.TRITON:
        found["log_frequency"] = str(values.log_frequency)
        found["trace_file"] = options.file
    found["trace_mode"] = options.mode.value
    if options.mode is TraceMode.OPENTELEMETRY:
        export = options.export
        found["url"] = export.url
        found["resource"] = [f"{key}={value}" for key, value in export.resource.items()]
        found["bsp_max_queue_size"] = str(export.max_queue_size)
        found["bsp_schedule_delay"] = str(export.schedule_delay_ms)
        found["bsp_max_export_batch_size"] = str(export.max_export_batch_size)
    return found


def settings_json(values: TraceValues, options: TraceOptions) -> bytes:
    return orjson.dumps(settings(values, options))


def settings_message(values: TraceValues, options: TraceOptions) -> pb.TraceSettingResponse:
    response = pb.TraceSettingResponse()
    for key, value in settings(values, options).items():
        response.settings[key].value.extend([value] if isinstance(value, str) else value)
    return response


def changes_of_json(body: bytes | memoryview) -> Changes:
    changes: Changes = {}
    document = read.parse_object(body)
    if "trace_file" in document:
        raise Unsupported(_NO_FILE)
    for key, value in document.items():
        if key == _LEVEL:
            texts = None if value is None else [_text(level) for level in read.array(value, key)]
            changes["levels"] = _levels(texts)
        elif key in _NUMBERS:
            text = None if value is None else read.string(value, key)
            changes[_NUMBERS[key][0]] = _number(key, text, "")
    return changes


def changes_of_message(entries: Mapping[str, Any]) -> Changes:
    """Of a TraceSettingRequest's map."""
    if "trace_file" in entries:
        raise Unsupported(_NO_FILE)
    changes: Changes = {}
    for key, entry in entries.items():
        texts = list(entry.value)
        if key == _LEVEL:
            changes["levels"] = _levels(texts or None)
        elif key in _NUMBERS:
            if len(texts) > 1:
                raise InvalidArgument(f"expect only 1 value for '{key}'")
            changes[_NUMBERS[key][0]] = _number(key, texts[0] if texts else None, " ")
    return changes


def _text(value: Any) -> str:
    return read.string(value, _LEVEL)


def _levels(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names that mean nothing are ignored."""
    if texts is None:
        return None
    if OFF in texts and len(texts) > 1:
        raise InvalidArgument("Expect only one trace level 'OFF' is specified")
    return tuple(level for level in LEVELS if level in texts)


def _number(key: str, text: str | None, blank: str) -> int | None:
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise InvalidArgument(f"Unable to parse '{key}', got: {text}")
    _, least, most = _NUMBERS[key]
    value = int(text)
    if key == "trace_count" and -(2**31) <= value < least:
        raise InvalidArgument(
            f"Unable to parse '{key}'. Expecting value >= {least}, got:{blank}{text}"
        )
    if not least <= value <= most:
        raise InvalidArgument(
            f"Unable to parse '{key}', value is out of range [ {least}, {most} ], got: {text}"
        )
    return value
