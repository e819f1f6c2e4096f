"""Infer over HTTP: the JSON object of a request, with or without binary tensors behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader as read, json_tensors
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.protocol.request_parameters import (
    Reader,
    RequestParameters,
    refuse_reserved,
)
from inference_runtime.spec.datatypes import BY_WIRE, Datatype
from inference_runtime.spec.messages import RequestedOutput, RequestHead, TensorHead
from inference_runtime.spec.region_span import RegionPlan, RegionSpan

_COUNT_MAX: Final = 2**63 - 1
_SOURCES: Final = ("data", "binary_data_size", "shared_memory_region")

Source = bytes | int | RegionSpan


@dataclass(frozen=True, slots=True)
class HttpInfer:
    """A request's head, and per input the bytes found in the JSON, the size of its binary part, or its region."""

    head: RequestHead
    id: str
    sources: Sequence[Source]

    @property
    def binary_size(self) -> int:
        return sum(source for source in self.sources if isinstance(source, int))

    @property
    def regions(self) -> RegionPlan | None:
        """None for the usual request, which names no shared memory."""
        inputs = {i: span for i, span in enumerate(self.sources) if isinstance(span, RegionSpan)}
        return region_plan(self.head, inputs)


def decode_infer(
    document: Any, target: tuple[str, str], heads: RequestHeads, limit_bytes: int
) -> HttpInfer:
    """Reads in Triton's order: id, parameters, inputs, outputs."""
    if not isinstance(document, dict):
        raise InvalidArgument("attempt to access JSON non-object as object")
    id_ = read.string(document["id"], "id") if "id" in document else ""
    parameters = RequestParameters()
    if "parameters" in document:
        entries = read.mapping(document["parameters"], "parameters")
        parameters.read(entries, _PARAMETERS, _custom)
    entries_in = read.array(read.member(document, "inputs"), "inputs")
    pairs = [_input(read.mapping(entry, "inputs"), limit_bytes) for entry in entries_in]
    entries_out = read.array(document.get("outputs", []), "outputs")
    outputs = tuple(_output(read.mapping(entry, "outputs")) for entry in entries_out)
    head = heads.head(target, tuple(tensor for tensor, _ in pairs), outputs, parameters)
    return HttpInfer(head, id_, [source for _, source in pairs])


def split_binary(infer: HttpInfer, available: int) -> None:
    """Checks that the binary section holds exactly what the inputs announce."""
    left = available
    for tensor, source in zip(infer.head.inputs, infer.sources, strict=True):
        if isinstance(source, int):
            if source > left:
                raise InvalidArgument(
                    f"unexpected size for input '{tensor.name}', expecting {source - left} "
                    f"additional bytes for model '{infer.head.model_name}'"
                )
            left -= source
    if left:
        raise InvalidArgument(
            f"unexpected additional input data for model '{infer.head.model_name}'"
        )


def element_count(name: str, row: Datatype, shape: Sequence[int]) -> int:
    """Elements of a tensor of this shape; refuses what 64 bits do not hold."""
    count = 1
    for size in shape:
        if size > _COUNT_MAX:
            raise InvalidArgument(
                f"invalid shape for input '{name}': shape {shape_text(shape)} "
                "contains one or more invalid dimensions"
            )
        count *= size
        if count > _COUNT_MAX:
            raise InvalidArgument(
                f"shape {shape_text(shape)} of input '{name}' causes total element count to exceed "
                f"maximum size of {_COUNT_MAX}"
            )
    if count * row.item_size > _COUNT_MAX:
        raise InvalidArgument(
            f"byte size overflow for input '{name}': {count} elements of {row.item_size} bytes"
        )
    return count


def region_plan(head: RequestHead, inputs: Mapping[int, RegionSpan]) -> RegionPlan | None:
    outputs = {output.name: output.region for output in head.outputs if output.region is not None}
    return RegionPlan(inputs, outputs) if inputs or outputs else None


def shape_text(shape: Sequence[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def oversized_json_data(name: str, size: int, limit_bytes: int) -> InvalidArgument:
    return InvalidArgument(
        f"JSON input '{name}' has a byte_size ({size} bytes) that exceeds the maximum allowed value "
        f"of {limit_bytes} bytes. Use --http-max-input-size to increase the limit."
    )


def _input(entry: dict[str, Any], limit_bytes: int) -> tuple[TensorHead, Source]:
    parameters = read.mapping(entry.get("parameters", {}), "parameters")
    source = _source(entry, parameters)
    name = read.string(read.member(entry, "name"), "name")
    datatype = read.string(read.member(entry, "datatype"), "datatype")
    row = BY_WIRE.get(datatype)
    if row is None:
        raise InvalidArgument(f"invalid datatype for input {name}")
    shape = tuple(
        read.unsigned(size, "shape") for size in read.array(read.member(entry, "shape"), "shape")
    )
    count = element_count(name, row, shape)
    tensor = TensorHead(name, datatype, shape)
    if source == "data":
        if count * row.item_size > limit_bytes:
            raise oversized_json_data(name, count * row.item_size, limit_bytes)
        packed = json_tensors.decode(name, row, count, entry["data"])
        if len(packed) > limit_bytes:
            raise oversized_json_data(name, len(packed), limit_bytes)
        return tensor, packed
    if source == "binary_data_size":
        return tensor, read.unsigned(parameters["binary_data_size"], "binary_data_size")
    return tensor, _span(parameters)


def _span(parameters: dict[str, Any]) -> RegionSpan:
    """Whether there is such a region, and how large, is not the bytes' business."""
    region = read.string(parameters["shared_memory_region"], "shared_memory_region")
    offset = read.unsigned(parameters.get("shared_memory_offset", 0), "shared_memory_offset")
    size = read.member(parameters, "shared_memory_byte_size")
    return RegionSpan(region, offset, read.unsigned(size, "shared_memory_byte_size"))


def _source(entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    found = [key for key in _SOURCES if key in (entry if key == "data" else parameters)]
    if len(found) == 1:
        return found[0]
    rest = "set " + " ".join(f"'{key}'" for key in found) if found else "no field is set"
    raise InvalidArgument(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in "
        f"'parameters', 'shared_memory_region' in 'parameters'. But {rest}"
    )


def _output(entry: dict[str, Any]) -> RequestedOutput:
    name = read.string(read.member(entry, "name"), "name")
    parameters = read.mapping(entry.get("parameters", {}), "parameters")
    class_count = read.unsigned(parameters.get("classification", 0), "classification")
    binary = read.boolean(parameters.get("binary_data", False), "binary_data")
    if "shared_memory_region" in parameters:
        if class_count:
            raise InvalidArgument(
                "Output can't set both 'shared_memory_region' and 'classification'"
            )
        if binary:
            raise InvalidArgument("Output can't set both 'shared_memory_region' and 'binary_data'")
        return RequestedOutput(name=name, binary=False, region=_span(parameters))
    return RequestedOutput(name=name, class_count=class_count, binary=binary)


def _sequence_id(into: RequestParameters, key: str, value: Any) -> None:
    into.sequence_id = value if type(value) is str else read.unsigned(value, key)


def _sequence_start(into: RequestParameters, key: str, value: Any) -> None:
    into.sequence_start = read.boolean(value, key)


def _sequence_end(into: RequestParameters, key: str, value: Any) -> None:
    into.sequence_end = read.boolean(value, key)


def _priority(into: RequestParameters, key: str, value: Any) -> None:
    into.priority = read.unsigned(value, key)


def _timeout(into: RequestParameters, key: str, value: Any) -> None:
    into.timeout_us = read.unsigned(value, key)


def _binary_default(into: RequestParameters, key: str, value: Any) -> None:
    into.binary_default = read.boolean(value, key)


def _custom(into: RequestParameters, key: str, value: Any) -> None:
    refuse_reserved(key, " and should not be specified.")
    if type(value) not in (str, bool, int, float) or value == read.TOO_DEEP:
        raise InvalidArgument(
            f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'."
        )
    if type(value) is int:
        read.signed(value, key)
    into.custom[key] = value


_PARAMETERS: Final[Mapping[str, Reader]] = {
    "sequence_id": _sequence_id,
    "sequence_start": _sequence_start,
    "sequence_end": _sequence_end,
    "priority": _priority,
    "timeout": _timeout,
    "binary_data_output": _binary_default,
}
