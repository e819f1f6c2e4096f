"""JSON of requests: bounded, never recursive on hostile nesting, with the protocol's wording.

What Triton answers with 500 here is the client's fault and comes back as 400, with the same text.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes

# Deeper than any request needs to be (JSON data may nest 100 deep) and far from the stack's end.
_DEPTH_LIMIT: Final = 160
# Stands for whatever was nested too deep. A client may send it as a string; it gains nothing.
TOO_DEEP: Final = "\x00nested too deep"
_TOO_DEEP_JSON: Final = orjson.dumps(TOO_DEEP)
_UINT64_MAX: Final = 2**64 - 1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1

_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")  # of a pair that makes one character
_KEY_END: Final = re.compile(rb'"[ \t\r\n]*:')
# Possessive, and a string without an end is taken whole: no body makes this look at a byte twice.
_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]|-?\b(?:NaN|Infinity|Inf)\b', re.DOTALL
)


def parse(buffer: Bytes) -> Any:
    """The value; NaN and the infinities are read, anything under `_DEPTH_LIMIT` levels is not looked at.

    Of a key that is given twice the first counts.
    """
    try:
        value = orjson.loads(buffer)
    except orjson.JSONDecodeError as error:
        return _parse_uncommon(bytes(buffer), error)
    return _load(_plain(bytes(buffer))[0]) if _may_repeat(bytes(buffer), value) else value


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the document, a repeated key included."""


def parse_pairs(buffer: Bytes) -> Pairs:
    """A JSON object, the objects within it likewise; refuses what `parse` refuses, with its texts."""
    value = _load(_plain(bytes(buffer))[0], Pairs)
    if not isinstance(value, Pairs):
        raise InvalidArgument("attempt to access JSON non-object as object")
    return value


def parse_object(buffer: Bytes) -> dict[str, Any]:
    """The JSON object of a body that may be empty."""
    if not len(buffer):
        return {}
    value = parse(buffer)
    if not isinstance(value, dict):
        raise InvalidArgument("attempt to access JSON non-object as object")
    return value


def _parse_uncommon(text: bytes, first: json.JSONDecodeError) -> Any:
    """Only bare words and deep nesting are worth a second look; all else fails as it did at first."""
    plain, changed = _plain(text)
    if not changed:
        raise _syntax(first)
    return _load(plain)


def _load(plain: bytes, members: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """`members`: what becomes of an object; a mapping where it is not given."""
    try:
        value = json.loads(
            plain.decode(), parse_float=_finite, object_pairs_hook=members or _first_of_each
        )
        if _HALF.search(plain):
            # Half a character is text to this reader alone: no answer, log line or model could hold it.
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _syntax(error) from error
    except ValueError as error:  # not UTF-8, or digits without end
        raise InvalidArgument(f"failed to parse the request JSON buffer: {error} at 0") from error
    return value


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _may_repeat(text: bytes, value: Any) -> bool:
    """Whether an object may hold a key twice: never wrong when it says no, and that is cheap to say.

    There are at least as many colons as keys, and as many that follow a quotation mark.
    """
    keys = _count_keys(value)
    return text.count(b":") > keys and len(_KEY_END.findall(text)) > keys


def _count_keys(value: Any) -> int:
    """Keys of the objects in the places where requests have them; long lists of data are not walked."""
    count = 0
    rest = [value]
    while rest:
        inner = rest.pop()
        if isinstance(inner, dict):
            count += len(inner)
            rest.extend(inner.values())
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            rest.extend(inner)
    return count


def _syntax(error: json.JSONDecodeError) -> InvalidArgument:
    return InvalidArgument(f"failed to parse the request JSON buffer: {error.msg} at {error.pos}")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number too big to be stored in double")
    return value


def _plain(text: bytes) -> tuple[bytes, bool]:
    """The text with `Inf` spelled out and everything too deep cut away; and whether it had such things."""
    parts: list[bytes] = []
    changed = False
    depth = kept = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth == _DEPTH_LIMIT:
                parts.append(text[kept : match.start()])
                changed = True
        elif token in (b"]", b"}"):
            if depth == _DEPTH_LIMIT:
                parts.append(_TOO_DEEP_JSON)
                kept = match.end()
            depth -= 1
        elif token[:1] != b'"' and depth < _DEPTH_LIMIT:
            parts.append(
                text[kept : match.start()]
                + token.replace(b"Infinity", b"Inf").replace(b"Inf", b"Infinity")
            )
            kept = match.end()
            changed = True
    if depth < _DEPTH_LIMIT:
        parts.append(text[kept:])
    return b"".join(parts), changed


def _wrong(key: str, found: str, wanted: str) -> InvalidArgument:
    return InvalidArgument(f"Unable to parse '{key}': attempt to access JSON {found} as {wanted}")


def member(holder: dict[str, Any], key: str) -> Any:
    try:
        return holder[key]
    except KeyError:
        raise InvalidArgument(
            f"Unable to parse '{key}': attempt to access non-existing object member '{key}'"
        ) from None


def string(value: Any, key: str) -> str:
    if type(value) is not str:
        raise _wrong(key, "non-string", "string")
    return value


def boolean(value: Any, key: str) -> bool:
    if type(value) is not bool:
        raise _wrong(key, "non-boolean", "boolean")
    return value


def unsigned(value: Any, key: str) -> int:
    if type(value) is not int or not 0 <= value <= _UINT64_MAX:
        raise _wrong(key, "non-unsigned-integer", "unsigned-integer")
    return value


def signed(value: Any, key: str) -> int:
    if type(value) is not int or not _INT64_MIN <= value <= _INT64_MAX:
        raise _wrong(key, "non-signed-integer", "signed-integer")
    return value


def array(value: Any, key: str) -> list[Any]:
    if type(value) is not list:
        raise _wrong(key, "non-array", "array")
    return value


def mapping(value: Any, key: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise _wrong(key, "non-object", "object")
    return value
