"""Holds what the API answers against what its OpenAPI description says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

Schema = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    what: Schema

    @property
    def name(self) -> str:
        return self.what["operationId"]

    @property
    def body(self) -> Schema | None:
        content = self.what.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("schema")

    def parameters(self, place: str) -> dict[str, Schema]:
        return {each["name"]: each for each in self.what["parameters"] if each["in"] == place}


@dataclass
class Description:
    schema: Schema
    operations: list[Operation] = field(init=False)
    _components: Schema = field(init=False)

    def __post_init__(self) -> None:
        self.operations = [
            Operation(method.upper(), path, what)
            for path, methods in self.schema["paths"].items()
            for method, what in methods.items()
        ]
        for operation in self.operations:
            operation.what.setdefault("parameters", [])
        self._components = _exact(self.schema["components"])

    def find(self, method: str, path: str) -> Operation:
        for operation in self.operations:
            pattern = re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(operation.path))
            if operation.method == method and re.fullmatch(pattern, path):
                return operation
        raise AssertionError(f"{method} {path} is not described")

    def resolved(self, schema: Schema) -> Schema:
        name = schema.get("$ref", "").rsplit("/", 1)[-1]
        return self.schema["components"]["schemas"][name] if name else schema

    def kinds(self, schema: Schema) -> set[str]:
        """The JSON types a value may have."""
        schema = self.resolved(schema)
        if "anyOf" in schema:
            return set().union(*(self.kinds(each) for each in schema["anyOf"]))
        kinds = schema["type"]
        return {kinds} if isinstance(kinds, str) else set(kinds)

    def errors(self, schema: Schema, value: Any) -> list[str]:
        """Fields that are not described count too."""
        validator = Draft202012Validator(
            {**_exact(schema), "components": self._components},
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        )
        return [f"{each.json_path}: {each.message[:300]}" for each in validator.iter_errors(value)]


def _exact(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_exact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: value if key == "examples" else _exact(value) for key, value in schema.items()}
    is_shape = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if is_shape and "reason" not in schema["properties"]:  # problems may say more
        closed.setdefault("additionalProperties", False)
    return closed


@dataclass
class DescribedClient:
    """Calls the API; every answer must be a described one. `called` are the operations that worked."""

    api: APIClient
    description: Description
    called: set[str] = field(default_factory=set)

    def __call__(
        self, method: str, path: str, body: Any = None, *, ok: bool = True, **sent: Any
    ) -> Any:
        bare, _, query = path.partition("?")
        operation = self.description.find(method, f"/api/v1/{bare}")
        known = operation.parameters("query")
        assert {each.split("=")[0] for each in query.split("&") if each} <= known.keys()
        if ok and operation.body is not None and body is not None and "format" not in sent:
            assert self.description.errors(operation.body, body) == [], operation.name
        response = getattr(self.api, method.lower())(f"/api/v1/{path}", body, **sent)
        assert (response.status_code < 400) == ok, (operation.name, response.content[:500])
        faults = list(self._faults(operation, response))
        assert not faults, (operation.name, response.status_code, faults)
        if ok and "validate_only" not in query:
            self.called.add(operation.name)
        return response

    def _faults(self, operation: Operation, response: Any) -> Iterator[str]:
        answer = operation.what["responses"].get(str(response.status_code))
        if answer is None:
            yield "this status is not described"
            return
        for name, header in answer.get("headers", {}).items():
            if header.get("required") and name not in response:
                yield f"the header {name} is missing"
        content = answer.get("content")
        if content is None:
            if response.content:
                yield "a body where none is described"
            return
        ((media_type, what),) = content.items()
        if response["Content-Type"].split(";")[0] != media_type:
            yield f"{response['Content-Type']} instead of {media_type}"
        else:
            yield from self.description.errors(what["schema"], response.json())
