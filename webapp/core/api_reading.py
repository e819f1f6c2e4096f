"""The API's description for reading: what the page at /api/docs/ shows."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from webapp.core.contract import BYTES, FORM
from webapp.core.json_schema import Schema, resolved


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[dict[str, Any], ...]
    fields: tuple[tuple[str, Schema], ...]  # of the body
    sends: str  # the options of curl that send a body
    needs_if_match: bool
    answers: tuple[tuple[str, str], ...]  # status and what it means, but for those all have


@lru_cache(maxsize=1)
def calls_by_tag() -> list[tuple[str, list[Call]]]:
    """Every operation, grouped and ordered for people."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    groups: dict[str, list[Call]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            call = Call(
                method=method.upper(),
                path=path,
                summary=operation.get("summary", ""),
                description=operation.get("description", ""),
                parameters=tuple(operation.get("parameters", ())),
                fields=_fields(operation),
                sends=_sends(operation),
                needs_if_match="428" in operation["responses"],
                answers=tuple(
                    (status, answer["description"])
                    for status, answer in operation["responses"].items()
                    if status not in {"400", "401", "403", "413", "415", "default"}
                ),
            )
            groups.setdefault(operation["tags"][0], []).append(call)
    return sorted(groups.items())


def _fields(operation: dict[str, Any]) -> tuple[tuple[str, Schema], ...]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        return tuple(resolved(schema.get("anyOf", [schema])[0]).get("properties", {}).items())
    return ()


def _sends(operation: dict[str, Any]) -> str:
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        if media_type == FORM:
            return "-F file=@model.onnx"
        if media_type == BYTES:
            return f'-H "Content-Type: {BYTES}" --data-binary @part'
        body = json.dumps(content.get("example", {}))
        return f"""-H "Content-Type: application/json" -d '{body}'"""
    return ""
