"""Bodies of everything that is not an inference: protobuf as Triton's JSON, index entries, load parameters."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import orjson

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader as read


class IndexEntry(Protocol):
    """One version, or a model that was never loaded (then `version` and `state` are empty)."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...


def index_json(entries: Iterable[IndexEntry]) -> bytes:
    rows: list[dict[str, str]] = []
    for entry in entries:
        row = {"name": entry.name}
        if entry.version:
            row["version"] = entry.version
        if entry.state:
            row["state"] = entry.state
        if entry.reason:
            row["reason"] = entry.reason
        rows.append(row)
    return orjson.dumps(rows)


def index_message(entries: Iterable[IndexEntry]) -> pb.RepositoryIndexResponse:
    response = pb.RepositoryIndexResponse()
    for entry in entries:
        response.models.add(
            name=entry.name, version=entry.version, state=entry.state, reason=entry.reason
        )
    return response


def read_ready_only(body: bytes | memoryview) -> bool:
    ready = read.parse_object(body).get("ready", False)
    if type(ready) is not bool:
        raise InvalidArgument("Invalid value for 'ready': expected a boolean")
    return ready


def read_load_parameters(body: bytes | memoryview) -> dict[str, Any]:
    """`config` as text, `file:<path>` as bytes."""
    document = read.parse_object(body)
    parameters: dict[str, Any] = {}
    for key, value in read.mapping(document.get("parameters", {}), "parameters").items():
        text = read.string(value, key)
        if key == "config":
            parameters[key] = text
        elif key.startswith("file:"):
            parameters[key] = _decoded(key, text)
        else:
            raise InvalidArgument("unexpected error on creating Triton parameter")
    return parameters


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(
            f"failed to decode load parameter '{key}' as base64: {error}"
        ) from error


def read_unload_dependents(body: bytes | memoryview) -> bool:
    parameters = read.mapping(read.parse_object(body).get("parameters", {}), "parameters")
    return read.boolean(parameters.get("unload_dependents", False), "unload_dependents")


def load_parameters(
    parameters: Mapping[str, pb.ModelRepositoryParameter],
) -> dict[str, Any]:
    """The same from a gRPC request, whose files are raw bytes."""
    found: dict[str, Any] = {}
    for key, parameter in parameters.items():
        kind = parameter.WhichOneof("parameter_choice")
        if key == "config":
            if kind != "string_param":
                raise InvalidArgument(
                    "invalid value type for load parameter 'config', expected string_param."
                )
            found[key] = parameter.string_param
        elif key.startswith("file:"):
            if kind != "bytes_param":
                raise InvalidArgument(
                    f"invalid value type for load parameter '{key}', expected bytes_param."
                )
            found[key] = parameter.bytes_param
        else:
            raise InvalidArgument(f"unrecognized load parameter '{key}'.")
    return found


def unload_dependents(parameters: Mapping[str, pb.ModelRepositoryParameter]) -> bool:
    """Keys besides `unload_dependents` are ignored."""
    if "unload_dependents" not in parameters:
        return False
    parameter = parameters["unload_dependents"]
    if parameter.WhichOneof("parameter_choice") != "bool_param":
        raise InvalidArgument(
            "invalid value type for 'unload_dependents' parameter, expected bool_param."
        )
    return bool(parameter.bool_param)
