"""Whether a body has the shape its contract gives it: names and JSON types, nothing coerced.

What a value may be (ranges, names, lengths) is for the services to say: their words are better.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from jsonschema import Draft202012Validator, ValidationError, validators

from webapp.core.contract import FORM, Contract
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import COMPONENTS, Schema, resolved

_CHECKED = ("$ref", "type", "properties", "required", "additionalProperties", "items", "anyOf")
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_TYPES = Draft202012Validator.TYPE_CHECKER.redefine(
    # 1.0 is a number of JSON, but no whole one: nothing is coerced.
    "integer",
    lambda _, value: isinstance(value, int) and not isinstance(value, bool),
)
_Validator = validators.create(
    Draft202012Validator.META_SCHEMA,
    {keyword: Draft202012Validator.VALIDATORS[keyword] for keyword in _CHECKED},
    type_checker=_TYPES,
)


def body_check(contract: Contract, data: Mapping[str, Any]) -> None:
    """Raises InvalidInput that names every field that is wrong."""
    assert contract.body is not None
    found = _form_errors if contract.media_type == FORM else _json_errors
    errors = list(found(contract, data))
    if errors:
        raise InvalidInput(
            " ".join(f"{_name(error['pointer'])}: {error['detail']}" for error in errors[:5]),
            reason=contract.refusal,
            help_text=contract.refusal_help,
            errors=errors[:50],
        )


@cache
def _validator(contract: Contract) -> Any:
    return _Validator({**(contract.body or {}), "components": {"schemas": COMPONENTS}})


def _json_errors(contract: Contract, data: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    seen = set()
    for error in sorted(_validator(contract).iter_errors(data), key=lambda each: each.json_path):
        for told in _told(_nearest(error)):
            if told["pointer"] not in seen:
                seen.add(told["pointer"])
                yield told


def _nearest(error: ValidationError) -> ValidationError:
    """Of alternatives that all failed, the one that came furthest."""
    while error.context:
        error = max(error.context, key=lambda each: (len(each.path), each.validator != "type"))
    return error


def _told(error: Any) -> Iterator[dict[str, str]]:
    place = "".join(f"/{part}" for part in error.absolute_path)
    if error.validator == "additionalProperties":
        known = sorted(error.schema["properties"])
        hint = f"Fields are {', '.join(known)}." if known else "This call takes no fields."
        for name in sorted(error.instance.keys() - set(known)):
            yield _error(f"{place}/{name}", f"There is no such field. {hint}", "unknown")
    elif error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                yield _error(f"{place}/{name}", "It is needed.", "required")
    else:
        wanted = error.schema.get("type", [])
        kinds = [wanted] if isinstance(wanted, str) else wanted
        words = " or ".join(_WORDS[kind] for kind in kinds)
        yield _error(place, f"Expected {words}, got {_shown(error.instance)}.", "type")


def _form_errors(contract: Contract, data: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    fields: dict[str, Schema] = resolved(contract.body or {})["properties"]
    for name, value in data.items():
        kind = "file" if isinstance(value, UploadedFile) else "text"
        if name not in fields:
            hint = f"Fields are {', '.join(sorted(fields))}."
            yield _error(f"/{name}", f"There is no such field. {hint}", "unknown")
        elif kind not in (kinds := _kinds(fields[name])):
            yield _error(f"/{name}", f"Expected {' or '.join(sorted(kinds))}, got {kind}.", "type")


def _kinds(schema: Schema) -> set[str]:
    """A form's field is text, a file, or either."""
    options = schema.get("anyOf", [schema])
    return {"file" if option.get("format") == "binary" else "text" for option in options}


def _error(pointer: str, detail: str, code: str) -> dict[str, str]:
    return {"pointer": pointer or "/", "detail": detail, "code": code}


def _name(pointer: str) -> str:
    return pointer.removeprefix("/") or "the body"


def _shown(value: Any) -> str:
    words = repr(value) if not isinstance(value, bool | None) else str(value).lower()
    words = "null" if value is None else words
    return words if len(words) <= 60 else f"{words[:57]}…"
