"""Batches of requests with different shapes: flat inputs, what describes them, and outputs cut by it."""

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from inference_runtime.backends.base import Array
from inference_runtime.errors import Internal, InvalidArgument
from inference_runtime.instances.batch import Batch
from inference_runtime.instances.gather import Gatherer
from inference_runtime.instances.scatter import MAX_HEADS, Scatterer
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import InferResponse, ResponseHead, TensorHead
from inference_runtime.spec.model_config import ModelConfig, TensorSpec
from inference_runtime.spec.ragged import BatchInput, BatchInputKind
from inference_runtime.spec.tensors import element_count, to_wire

Shape = tuple[int, ...]


class RaggedGatherer(Gatherer):
    """As the other; a ragged input is one flat array of all its requests' elements."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self._ragged = tuple(spec.ragged and config.batching for spec in config.inputs)
        self._index = config.input_index
        self._batch_inputs = config.batch_inputs

    def gather(self, batch: Batch) -> list[Array | None]:
        first = batch.requests[0].plan
        arrays: list[Array | None] = []
        for index, port in enumerate(self._ports):
            if first.sources[index] < 0:
                arrays.append(None)
                continue
            shape: Shape = (batch.rows, *first.shapes[index][1:])
            if self._ragged[index]:
                counts = [element_count(request.plan.shapes[index]) for request in batch.requests]
                shape = (sum(counts),)
            arrays.append(port.array(shape, self._joined(batch, index)))
        for entry in self._batch_inputs:
            shapes = [request.plan.shapes[self._index[entry.source]] for request in batch.requests]
            arrays.extend([batch_input(entry, shapes)] * len(entry.target_names))
        return arrays


def batch_input(entry: BatchInput, shapes: Sequence[Shape]) -> Array:
    """What the requests of a batch, by their shapes (batch dimension first), come to."""
    return np.array(_VALUES[entry.kind](shapes), BY_WIRE[entry.datatype].dtype)


def _counts(shapes: Sequence[Shape]) -> list[int]:
    # The shape of an optional input that was left out is (), which would count as one element.
    return [element_count(shape) if shape else 0 for shape in shapes]


def _item_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    return [shape[1:] for shape in shapes if shape for _ in range(shape[0])]


_VALUES: Final[dict[BatchInputKind, Callable[[Sequence[Shape]], object]]] = {
    BatchInputKind.BATCH_ELEMENT_COUNT: _counts,
    BatchInputKind.BATCH_ACCUMULATED_ELEMENT_COUNT: lambda shapes: list(
        accumulate(_counts(shapes))
    ),
    BatchInputKind.BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO: lambda shapes: list(
        accumulate(_counts(shapes), initial=0)
    ),
    BatchInputKind.BATCH_MAX_ELEMENT_COUNT_AS_SHAPE: lambda shapes: [0] * max(_counts(shapes)),
    BatchInputKind.BATCH_ITEM_SHAPE: _item_shapes,
    BatchInputKind.BATCH_ITEM_SHAPE_FLATTEN: lambda shapes: [
        size for shape in _item_shapes(shapes) for size in shape
    ],
}


class RaggedScatterer(Scatterer):
    """As the other; where some output is cut by the shapes of an input, all are cut request by request."""

    def __init__(self, config: ModelConfig, *, model_name: str, version: int) -> None:
        super().__init__(config, model_name=model_name, version=version)
        self._cut_heads: dict[Hashable, ResponseHead] = {}
        self._sources = {
            config.output_index[name]: config.input_index[output.source]
            for output in config.batch_outputs
            for name in output.target_names
        }

    def scatter(
        self, batch: Batch, indexes: tuple[int, ...], arrays: Sequence[Array]
    ) -> list[InferResponse]:
        if not self._sources:
            return super().scatter(batch, indexes, arrays)
        cuts = {
            index: self._cuts(index, array, batch)
            for index, array in zip(indexes, arrays, strict=True)
        }
        answers = []
        for place, request in enumerate(batch.requests):
            pieces = [(self._config.outputs[i], cuts[i][place]) for i in request.plan.outputs]
            head = self._cut_head(
                tuple(TensorHead(spec.name, spec.datatype, piece.shape) for spec, piece in pieces)
            )
            answers.append(
                InferResponse(head, [to_wire(spec.datatype, piece) for spec, piece in pieces])
            )
        return answers

    def _cut_head(self, outputs: tuple[TensorHead, ...]) -> ResponseHead:
        """The same for equal outputs: front ends remember what they wrote for a head."""
        key = tuple((output.name, output.shape) for output in outputs)
        head = self._cut_heads.get(key)
        if head is None:
            if len(self._cut_heads) >= MAX_HEADS:
                self._cut_heads = {}
            head = ResponseHead(self._model_name, self._version, outputs)
            self._cut_heads[key] = head
        return head

    def _cuts(self, index: int, array: Array, batch: Batch) -> list[Array]:
        """One array per request."""
        spec = self._config.outputs[index]
        source = self._sources.get(index)
        if source is None:
            shapes = [(request.plan.batch_size, *array.shape[1:]) for request in batch.requests]
        else:
            shapes = [_filled(spec, request.plan.shapes[source]) for request in batch.requests]
        flat = array.reshape(-1)
        ends = list(accumulate(map(element_count, shapes)))
        if ends[-1] != flat.size or array.dtype != BY_WIRE[spec.datatype].dtype:
            raise Internal(
                f"output '{spec.name}' of model '{self._model_name}' has {flat.size} elements of "
                f"{array.dtype} where the shapes of the batch ask for {ends[-1]} of {spec.datatype}"
            )
        starts = [0, *ends[:-1]]
        return [
            flat[start:end].reshape(shape)
            for start, end, shape in zip(starts, ends, shapes, strict=True)
        ]


def _filled(spec: TensorSpec, source: Shape) -> Shape:
    """The output's dims, each open one taken from the input's shape at the same place."""
    if not source:
        raise InvalidArgument(
            f"output '{spec.name}' has the shape of an input that the request leaves out"
        )
    sizes = source[1:]
    return (
        source[0],
        *(sizes[at] if dim < 0 and at < len(sizes) else dim for at, dim in enumerate(spec.dims)),
    )


def is_ragged(config: ModelConfig) -> bool:
    return bool(config.batch_inputs or config.batch_outputs) or any(
        spec.ragged for spec in config.inputs
    )
