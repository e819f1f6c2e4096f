"""The inputs a client does not send: sequence controls from the flags of each row, state from the step before."""

from collections.abc import Mapping, Sequence

import numpy as np

from inference_runtime.backends.base import Array
from inference_runtime.errors import Internal
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import InferRequest
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.sequence_config import (
    ControlKind,
    ControlSpec,
    SequenceBatching,
    StateSpec,
)
from inference_runtime.spec.tensors import bytes_array, shape_text, to_array


class InjectedInputs:
    """Shared by all instances of a version: it holds nothing of a batch between two calls."""

    def __init__(self, config: ModelConfig, sequences: SequenceBatching) -> None:
        self._batching = config.batching
        self._model = config.name
        self._controls = sequences.controls
        self._states = sequences.states
        self._initial = tuple(self._first(state) for state in sequences.states)
        self.state_outputs = tuple(state.output_name for state in sequences.states)

    def arrays(self, batch: SequenceBatch) -> list[Array]:
        """In the order of `config.injected_inputs`, after those that describe the batch."""
        return self.controls(batch) + self._state_inputs(batch)

    def controls(self, batch: SequenceBatch) -> list[Array]:
        """One array per control, of one element for each row."""
        shape = (batch.rows, 1) if self._batching else (1,)
        return [_control(control, batch, shape) for control in self._controls]

    def keep(self, batch: SequenceBatch, given: Mapping[str, Array]) -> None:
        """Makes what the model gave the input of each sequence's next step; fillers leave nothing."""
        for spec in self._states:
            self._check(spec, given[spec.output_name], batch.rows)
        for place, state in zip(batch.places, batch.states, strict=True):
            state.values = tuple(
                given[spec.output_name]
                if batch.rows == 1
                # A view would keep the rows of all the others for as long.
                else given[spec.output_name][place : place + 1].copy()
                for spec in self._states
            )

    def _state_inputs(self, batch: SequenceBatch) -> list[Array]:
        if not self._states:
            return []
        rows = [self._initial] * batch.rows
        for place, request, state in zip(batch.places, batch.requests, batch.states, strict=True):
            if request.head.sequence_start:
                state.values = None  # even if this very step fails: what was before is over
            elif state.values is not None:
                rows[place] = state.values
        if batch.rows == 1:
            return list(rows[0])
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    def _first(self, state: StateSpec) -> Array:
        dims = state.initial.dims
        shape = (1, *dims) if self._batching else dims
        if state.initial.data is not None:
            return to_array(state.datatype, shape, state.initial.data)
        if state.datatype == "BYTES":
            return bytes_array([b""] * int(np.prod(dims)), shape)
        return np.zeros(shape, BY_WIRE[state.datatype].dtype)

    def _check(self, spec: StateSpec, array: Array, rows: int) -> None:
        expected = (rows, *spec.dims) if self._batching else spec.dims
        if array.dtype != BY_WIRE[spec.datatype].dtype:
            raise Internal(
                f"state '{spec.output_name}' of model '{self._model}' has data-type {array.dtype}, "
                f"but the config says {spec.datatype}"
            )
        if len(expected) != array.ndim or any(
            want not in (-1, got) for want, got in zip(expected, array.shape, strict=True)
        ):
            raise Internal(
                f"state '{spec.output_name}' of model '{self._model}' has shape "
                f"{shape_text(array.shape)}, but the config says {shape_text(expected)}"
            )


def _control(spec: ControlSpec, batch: SequenceBatch, shape: tuple[int, ...]) -> Array:
    if spec.kind is ControlKind.CORRELATION:
        return _correlations(spec, batch.all_rows.requests, shape)
    if spec.kind is ControlKind.READY:
        ready = set(batch.places)
        flags = [place in ready for place in range(batch.rows)]
    elif spec.kind is ControlKind.START:
        flags = [request.head.sequence_start for request in batch.all_rows.requests]
    else:
        flags = [request.head.sequence_end for request in batch.all_rows.requests]
    values = [spec.true if flag else spec.false for flag in flags]
    return np.array(values, BY_WIRE[spec.datatype].dtype).reshape(shape)


def _correlations(spec: ControlSpec, rows: Sequence[InferRequest], shape: tuple[int, ...]) -> Array:
    ids = [request.head.sequence_id for request in rows]
    if spec.datatype == "BYTES":
        # A filler has no id, which is 0 in any head.
        return bytes_array([str(id_ or "").encode() for id_ in ids], shape)
    # Ids have 64 bits; a narrower control gets the lower ones, as with Triton.
    wide = np.array([int(id_) & (2**64 - 1) for id_ in ids], np.uint64)
    return wide.astype(BY_WIRE[spec.datatype].dtype).reshape(shape)
