"""The API's description (OpenAPI), made from the views themselves, and the same for reading."""

from dataclasses import dataclass
from functools import lru_cache
from inspect import cleandoc
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes

_ACTIONS = {
    "GET": "Read",
    "POST": "Create",
    "PUT": "Replace",
    "PATCH": "Change",
    "DELETE": "Delete",
}
_PROBLEM = {
    "description": "A problem document (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "reason"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, in a sentence."},
        "reason": {"type": "string", "description": "Stable, UPPER_SNAKE: for programs."},
        "help": {"type": "string", "description": "What to do."},
        "request_id": {"type": "string", "description": "Quote it when you ask for help."},
        "retryable": {"type": "boolean"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


class ApiAutoSchema(AutoSchema):
    """Plain views answer plain objects; `@extend_schema` on a method says more where it helps."""

    def get_tags(self) -> list[str]:
        """The collection; below a model, the collection inside it."""
        segments = self.path.removeprefix("/api/v1").strip("/").split("/")
        nouns = [each.split(":")[0] for each in segments if not each.startswith("{")]
        return [nouns[1] if nouns[0] == "models" and len(nouns) > 1 else nouns[0]]

    def get_summary(self) -> str:
        first = self.get_description().split("\n", 1)[0].replace("`", "").rstrip(".")
        return first or self._summary_from_path()

    def get_description(self) -> str:  # type: ignore[override]
        handler = getattr(self.view, self.method.lower(), None)
        return cleandoc(handler.__doc__) if handler is not None and handler.__doc__ else ""

    def get_request_serializer(self) -> Any:
        return OpenApiTypes.OBJECT if self.method in {"POST", "PUT", "PATCH"} else None

    def get_response_serializers(self) -> Any:
        return OpenApiTypes.NONE if self.method == "DELETE" else OpenApiTypes.OBJECT

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            operation["responses"]["default"] = _PROBLEM
        return operation

    def get_operation_id(self) -> str:
        words = self.path.removeprefix("/api/v1").replace("{", "by_").replace("}", "")
        return f"{self.method.lower()}{words.replace('/', '_').replace(':', '_')}"

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False

    def _summary_from_path(self) -> str:
        last = self.path.rstrip("/").rsplit("/", 1)[-1]
        if ":" in last:
            return last.rsplit(":", 1)[-1].replace("_", " ").capitalize()
        if not last.startswith("{"):
            return ("List " if self.method == "GET" else "Add to ") + last
        return f"{_ACTIONS[self.method]} one"


def add_problem(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook: the one schema every operation refers to."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
    return result


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[dict[str, Any], ...]
    takes_body: bool


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
                takes_body="requestBody" in operation,
            )
            groups.setdefault(operation["tags"][0], []).append(call)
    return sorted(groups.items())
