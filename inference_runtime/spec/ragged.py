"""Batches of requests with different shapes: what a config says of the tensors that describe them. Pure."""

import enum
from dataclasses import dataclass
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.datatypes import wire_name


class BatchInputKind(enum.Enum):
    BATCH_ELEMENT_COUNT = 0
    BATCH_ACCUMULATED_ELEMENT_COUNT = 1
    BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO = 2
    BATCH_MAX_ELEMENT_COUNT_AS_SHAPE = 3
    BATCH_ITEM_SHAPE = 4
    BATCH_ITEM_SHAPE_FLATTEN = 5


@dataclass(frozen=True, slots=True)
class BatchInput:
    """Tensors for the backend that are made of the shapes of one input, batch by batch."""

    kind: BatchInputKind
    target_names: tuple[str, ...]
    datatype: str
    source: str


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """Outputs that are split by the shapes of an input, not by rows of equal size."""

    target_names: tuple[str, ...]
    source: str


def read_batch_inputs(proto: Any) -> tuple[BatchInput, ...]:
    return tuple(
        BatchInput(
            BatchInputKind(entry.kind),
            tuple(entry.target_name),
            wire_name(entry.data_type),
            entry.source_input[0],
        )
        for entry in proto.batch_input
    )


def read_batch_outputs(proto: Any) -> tuple[BatchOutput, ...]:
    return tuple(
        BatchOutput(tuple(entry.target_name), entry.source_input[0]) for entry in proto.batch_output
    )


def batch_input_names(proto: Any) -> list[str]:
    """Inputs of the file that the server fills in."""
    return [name for entry in proto.batch_input for name in entry.target_name]


def check_ragged(proto: Any) -> None:
    """Raises InvalidArgument in Triton's words."""
    inputs = {entry.name for entry in proto.input}
    for entry in proto.batch_input:
        kind = pb.BatchInput.Kind.Name(entry.kind)
        _check_source(proto, f"batch input kind '{kind}'", entry.source_input, inputs)
        if entry.data_type not in (pb.DataType.Value("TYPE_INT32"), pb.DataType.Value("TYPE_FP32")):
            raise InvalidArgument(
                f"batch input data type must be TYPE_INT32 or TYPE_FP32 for {proto.name}"
            )
    outputs = {entry.name for entry in proto.output}
    seen: set[str] = set()
    for entry in proto.batch_output:
        kind = pb.BatchOutput.Kind.Name(entry.kind)
        for name in entry.target_name:
            if name not in outputs:
                raise InvalidArgument(f"unknown target output name '{name}' for {proto.name}")
            if name in seen:
                raise InvalidArgument(
                    f"target output name '{name}' can only be specified once for {proto.name}"
                )
            seen.add(name)
        _check_source(proto, f"batch output kind '{kind}'", entry.source_input, inputs)


def _check_source(proto: Any, what: str, sources: Any, inputs: set[str]) -> None:
    if len(sources) != 1:
        raise InvalidArgument(f"{what} expects 1 source input, got {len(sources)} for {proto.name}")
    if sources[0] not in inputs:
        raise InvalidArgument(f"unknown source input name '{sources[0]}' for {proto.name}")
