"""The generate extension: one flat JSON object each way, mapped to tensors by the model's own inputs.

Keys are read in the order of the document, because the first thing that is wrong with it is what the
client is told.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader, json_tensors
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes, InferResponse, RequestHead, TensorHead

_PARAMETERS: Final = "parameters"
_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class GenerateInput:
    """`shape` is that of the metadata: a batching model's begins with -1."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    head: RequestHead
    data: Sequence[Bytes]
    id: str


def decode(
    body: Bytes,
    *,
    model_name: str,
    version: str,
    inputs: Mapping[str, GenerateInput],
    limit: int,
) -> GenerateRequest:
    """Raises InvalidArgument. `limit`: bytes that all inputs together may come to."""
    document = json_reader.parse_pairs(body)
    reader = _Reader(inputs, limit)
    reader.read_top(document)
    head = RequestHead(
        model_name=model_name,
        version=version,
        inputs=tuple(reader.tensors),
        parameters=reader.parameters,
    )
    return GenerateRequest(head, reader.data, reader.id)


@dataclass(slots=True)
class _Reader:
    inputs: Mapping[str, GenerateInput]
    limit: int
    tensors: list[TensorHead] = field(default_factory=list)
    data: list[Bytes] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    size: int = 0

    def read_top(self, pairs: json_reader.Pairs) -> None:
        for key, value in pairs:
            if key == "id" and key not in self.inputs:
                self.id = json_reader.string(value, "id")
            elif key == _PARAMETERS:
                self._read_nested(value)
            else:
                self._read(key, value, "")

    def _read_nested(self, value: Any) -> None:
        if _PARAMETERS in self.inputs:
            raise InvalidArgument(
                "Keyword 'parameters' for nested schema also given as input tensor name"
            )
        if not isinstance(value, json_reader.Pairs):
            raise InvalidArgument("Expected JSON object for keyword: 'parameters'")
        for key, inner in value:
            self._read(key, inner, "Converting keyword: 'parameters': ")

    def _read(self, key: str, value: Any, context: str) -> None:
        port = self.inputs.get(key)
        if port is not None:
            self._read_input(port, value)
            return
        if type(value) is int and value not in _INT64:
            raise InvalidArgument(
                f"{context}Unable to parse '{key}': attempt to access JSON "
                "non-signed-integer as signed-integer"
            )
        if type(value) not in (str, int, bool, float):
            raise InvalidArgument(
                f"{context}parameter '{key}' has invalid type. It should be either 'int', 'bool', "
                "or 'string'."
            )
        self.parameters[key] = value

    def _read_input(self, port: GenerateInput, value: Any) -> None:
        if any(tensor.name == port.name for tensor in self.tensors):
            raise InvalidArgument(f"input '{port.name}' already exists in request")
        flat = value if type(value) is list else [value]
        if list in map(type, flat):
            raise InvalidArgument(
                f"{_misfit(port)}: it takes a scalar or a one-dimensional list, not a nested one"
            )
        shape = _shape(port, len(flat))
        packed = json_tensors.decode(port.name, BY_WIRE[port.datatype], len(flat), flat)
        self.size += len(packed)
        if self.size > self.limit:
            raise InvalidArgument(
                f"request size of {self.size} bytes with input '{port.name}' of size {len(packed)} "
                f"bytes exceeds the maximum allowed input size of {self.limit} bytes. Use "
                "--http-max-input-size to increase the limit."
            )
        self.tensors.append(TensorHead(port.name, port.datatype, shape))
        self.data.append(packed)


def _shape(port: GenerateInput, count: int) -> tuple[int, ...]:
    """The innermost free dimension takes what the fixed ones leave, every other one is 1."""
    fixed = math.prod(dim for dim in port.shape if dim >= 0)
    free = [at for at, dim in enumerate(port.shape) if dim < 0]
    left, rest = divmod(count, fixed) if fixed else (0, count)
    if rest or (not free and left != 1):
        raise InvalidArgument(_misfit(port))
    shape = [1 if dim < 0 else dim for dim in port.shape]
    if free:
        shape[free[-1]] = left
    return tuple(shape)


def _misfit(port: GenerateInput) -> str:
    return f"The schema can not convert input '{port.name}' to tensor with proper shape"


def encode(answer: InferResponse, id_: str) -> bytes:
    """One response as a flat JSON object; raises InvalidArgument for data that JSON can not hold."""
    fields: dict[str, Any] = {"id": id_} if id_ else {}
    fields["model_name"] = answer.head.model_name
    fields["model_version"] = answer.head.model_version
    fields.update(answer.head.parameters)
    members = [orjson.dumps(fields)[1:-1]]
    for output, data in zip(answer.head.outputs, answer.data, strict=True):
        text = json_tensors.encode(output.name, BY_WIRE[output.datatype], data)
        if math.prod(output.shape) == 1:
            text = text[1:-1]
        members.append(orjson.dumps(output.name) + b":" + text)
    return b"{" + b",".join(members) + b"}"


def event(document: bytes) -> bytes:
    """A server-sent event."""
    return b"data: " + document + b"\n\n"
