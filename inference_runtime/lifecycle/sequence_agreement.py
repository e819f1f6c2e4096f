"""What sequence batching asks of a version's files: controls and states in the model, initial states on disk. Blocking."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from inference_runtime.backends.base import ArtifactDescription, PortDescription
from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.lifecycle.config_completion import shape_message
from inference_runtime.spec.datatypes import config_name
from inference_runtime.spec.layout import OutsideRoot, resolve_inside
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.sequence_config import ControlSpec, StateSpec
from inference_runtime.spec.tensors import (
    BytesFramingError,
    byte_size,
    count_bytes,
    element_count,
    shape_text,
)

INITIAL_STATES = "initial_state"  # a directory of the model's, beside its versions


def check_per_request(config: ModelConfig) -> None:
    """A backend that answers request by request has nowhere to put a state, and no batch to describe."""
    if config.batch_inputs or config.batch_outputs:
        raise InvalidArgument(
            "batch inputs and batch outputs are only supported for custom platform and TensorRT "
            f"platform for {config.name}"
        )
    sequences = config.sequence_batching
    if sequences is not None and sequences.states:
        raise Unsupported(
            f"model '{config.name}' asks for implicit state, which its backend does not support: "
            "keep the state in the model, by correlation id"
        )


def check_injected(config: ModelConfig, description: ArtifactDescription) -> None:
    """Whether the file takes the controls and states that the config names; raises InvalidArgument."""
    if config.sequence_batching is None:
        return
    agreement = _Agreement(config, description)
    for control in config.sequence_batching.controls:
        agreement.check_control(control)
    for state in config.sequence_batching.states:
        agreement.check_state(state)


class _Agreement:
    def __init__(self, config: ModelConfig, description: ArtifactDescription) -> None:
        self._config = config
        self._start = f"unable to load model '{config.name}', "
        self._lead = (-1,) if config.batching else ()
        self._inputs = {port.name: port for port in description.inputs}
        self._outputs = {port.name: port for port in description.outputs}

    def check_control(self, control: ControlSpec) -> None:
        label = f"sequence control '{control.name}'"
        port = self._found(label, self._inputs.get(control.name), "input")
        self._check_type(label, control.datatype, port)
        if port.shape is not None and not _may_be((*self._lead, 1), port.shape):
            dims = shape_text(port.shape[len(self._lead) :])
            raise InvalidArgument(
                f"{self._start}{label} in model has dims {dims} but dims [1] is expected"
            )

    def check_state(self, state: StateSpec) -> None:
        inputs, outputs = self._inputs, self._outputs
        self._check_side(state, state.input_name, inputs.get(state.input_name), "input")
        self._check_side(state, state.output_name, outputs.get(state.output_name), "output")

    def _check_side(
        self, state: StateSpec, name: str, given: PortDescription | None, kind: str
    ) -> None:
        label = f"state '{name}'"
        port = self._found(label, given, kind)
        self._check_type(label, state.datatype, port)
        shape = (*self._lead, *state.dims)
        if port.shape is not None and not _may_be(shape, port.shape):
            raise InvalidArgument(shape_message(self._config.proto, name, shape, port.shape))

    def _found(self, label: str, port: PortDescription | None, kind: str) -> PortDescription:
        if port is None:
            raise InvalidArgument(
                f"{self._start}configuration specified {label}, but model does not provide that {kind}"
            )
        return port

    def _check_type(self, label: str, datatype: str, port: PortDescription) -> None:
        if port.datatype != datatype:
            raise InvalidArgument(
                f"{self._start}configuration expects datatype {config_name(datatype)} for {label}, "
                f"model provides {config_name(port.datatype)}"
            )


def _may_be(configured: Sequence[int], found: Sequence[int]) -> bool:
    """Whether some shape is both: a graph often does not know the shape of what it gives."""
    return len(configured) == len(found) and all(
        mine == theirs or -1 in (mine, theirs)
        for mine, theirs in zip(configured, found, strict=True)
    )


def with_initial_states(config: ModelConfig, model_directory: Path) -> ModelConfig:
    """The config with the contents of the files that its states begin with; raises InvalidArgument."""
    sequences = config.sequence_batching
    if sequences is None or not any(state.initial.file for state in sequences.states):
        return config
    states = tuple(_read(state, config.name, model_directory) for state in sequences.states)
    return replace(config, sequence_batching=replace(sequences, states=states))


def _read(state: StateSpec, model: str, model_directory: Path) -> StateSpec:
    initial = state.initial
    if not initial.file:
        return state
    label = f"initial state file '{initial.file}' of state '{state.input_name}' of model '{model}'"
    try:
        data = resolve_inside(model_directory / INITIAL_STATES, initial.file).read_bytes()
    except (OutsideRoot, OSError) as error:
        raise InvalidArgument(f"{label} can not be read: {error}") from error
    size = byte_size(state.datatype, initial.dims)
    if size >= 0:
        problem = f"holds {len(data)} bytes, expected {size}" if len(data) != size else ""
    else:
        problem = _string_problem(data, element_count(initial.dims))
    if problem:
        raise InvalidArgument(f"{label} {problem}")
    return replace(state, initial=replace(initial, data=data))


def _string_problem(data: bytes, expected: int) -> str:
    try:
        count = count_bytes(data, expected)
    except BytesFramingError as error:
        return f"is cut short: {error}"
    return f"does not hold {expected} strings" if count != expected else ""
