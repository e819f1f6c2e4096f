"""JSON Schemas of the API's bodies: what OpenAPI shows is what is checked.

Shapes of answers may grow, so they stay open; bodies of requests are closed. A named shape lives in
the description's components and is referred to by its name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]

COMPONENTS: dict[str, Schema] = {}

OBJECT: Schema = {"type": "object", "additionalProperties": True}


def text(description: str = "", **rest: Any) -> Schema:
    return _described({"type": "string", **rest}, description)


def whole(description: str = "", **rest: Any) -> Schema:
    return _described({"type": "integer", **rest}, description)


def number(description: str = "", **rest: Any) -> Schema:
    return _described({"type": "number", **rest}, description)


def flag(description: str = "", **rest: Any) -> Schema:
    return _described({"type": "boolean", **rest}, description)


def moment(description: str = "") -> Schema:
    return text(description, format="date-time")


def share(description: str) -> Schema:
    return number(description, minimum=0, maximum=1)


def seconds(description: str, **rest: Any) -> Schema:
    return number(f"{description} In seconds.", **{"minimum": 0, **rest})


def milliseconds(description: str = "") -> Schema:
    return number(f"{description} In milliseconds.".strip(), minimum=0)


def one_of(values: Iterable[str], description: str = "") -> Schema:
    return text(description, enum=[str(value) for value in values])


def file(description: str) -> Schema:
    return text(description, format="binary")


def array(items: Schema, description: str = "", **rest: Any) -> Schema:
    return _described({"type": "array", "items": items, **rest}, description)


def record(properties: Mapping[str, Schema], description: str = "") -> Schema:
    """An object of an answer: every property is always there."""
    shown = {"type": "object", "required": list(properties), "properties": dict(properties)}
    return _described(shown, description)


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    if isinstance(kind := schema.get("type"), str):
        known = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": [kind, "null"], **known}
    return {"anyOf": [schema, {"type": "null"}]}


def shape(name: str, properties: Mapping[str, Schema], description: str = "") -> Schema:
    """`record` under a name of its own."""
    return named(name, record(properties, description))


def body(
    name: str,
    required: Mapping[str, Schema],
    optional: Mapping[str, Schema] | None = None,
    description: str = "",
) -> Schema:
    """What a caller sends. Other fields are refused; null stands for left out, but for flags."""
    extra = {key: _or_null(value) for key, value in (optional or {}).items()}
    return named(name, closed({**required, **extra}, required, description))


def closed(
    properties: Mapping[str, Schema], required: Iterable[str] = (), description: str = ""
) -> Schema:
    """An object with these fields and no others."""
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if needed := list(required):
        schema["required"] = needed
    return _described(schema, description)


def listed(name: str, item: Schema) -> Schema:
    """A page of a collection."""
    return shape(
        name,
        {
            "items": array(item),
            "next_page_token": text('Send it as `page_token` for the next page; "" on the last.'),
        },
    )


def named(name: str, schema: Schema) -> Schema:
    if COMPONENTS.setdefault(name, schema) is not schema:
        raise ValueError(f"There are two shapes named {name}.")
    return {"$ref": f"#/components/schemas/{name}"}


def resolved(schema: Schema) -> Schema:
    """The shape itself, where only its name is given."""
    reference = schema.get("$ref", "")
    return COMPONENTS[reference.rsplit("/", 1)[-1]] if reference else schema


def _or_null(schema: Schema) -> Schema:
    """A yes or no that is neither would be read as a no by some and as a mistake by others."""
    return schema if schema.get("type") == "boolean" else maybe(schema)


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


NO_FIELDS: Schema = closed({})
