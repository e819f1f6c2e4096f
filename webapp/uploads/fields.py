"""Reads one field of a JSON body, or says which field is wrong and what would do."""

from typing import Any

from webapp.core.errors import InvalidInput


def text_field(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    if value is None or isinstance(value, str):
        return value or ""
    raise _wrong(name, "text", value)


def whole_field(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong(name, "a whole number", value)


def optional_whole_field(body: dict[str, Any], name: str) -> int | None:
    return None if body.get(name) is None else whole_field(body, name)


def _wrong(name: str, expected: str, value: object) -> InvalidInput:
    return InvalidInput(
        f"{name}: expected {expected}, got {value!r}"[:300] + ".",
        reason="VALIDATION_FAILED",
        errors=[{"pointer": f"/{name}", "detail": f"must be {expected}"}],
    )
