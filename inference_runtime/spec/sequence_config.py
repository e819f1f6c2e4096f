"""The `sequence_batching` of a config, read once: strategy, controls, implicit state. Times in nanoseconds."""

import enum
from dataclasses import dataclass
from typing import Any

from inference_runtime.spec.datatypes import wire_name

# What each list of false and true is a list of.
CONTROL_LISTS = {
    "int32_false_true": "INT32",
    "fp32_false_true": "FP32",
    "bool_false_true": "BOOL",
}


class ControlKind(enum.Enum):
    START = 0
    READY = 1
    END = 2
    CORRELATION = 3


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """An input of one element that the server fills in, for each row of a batch."""

    name: str
    kind: ControlKind
    datatype: str
    false: float = 0
    true: float = 1


@dataclass(frozen=True, slots=True)
class InitialState:
    """What a state is before the first step, in wire form; `data` None: zeros, or empty strings."""

    dims: tuple[int, ...]
    file: str = ""  # below the model's `initial_state` directory
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class StateSpec:
    """What a step leaves to the next: `output_name` becomes `input_name`. -1 follows what the model gives."""

    input_name: str
    output_name: str
    datatype: str
    dims: tuple[int, ...]
    initial: InitialState

    @property
    def fixed(self) -> bool:
        return -1 not in self.dims


@dataclass(frozen=True, slots=True)
class DirectStrategy:
    """A sequence keeps one row of the batch."""

    max_queue_delay_ns: int = 0
    minimum_slot_utilization: float = 0.0


@dataclass(frozen=True, slots=True)
class OldestStrategy:
    """The first requests of the candidate sequences form batches as a dynamic batcher's do."""

    max_candidate_sequences: int  # 0: as many as fit into a batch
    preferred_batch_sizes: tuple[int, ...]
    max_queue_delay_ns: int = 0
    preserve_ordering: bool = False


@dataclass(frozen=True, slots=True)
class SequenceBatching:
    strategy: DirectStrategy | OldestStrategy
    max_idle_ns: int
    controls: tuple[ControlSpec, ...] = ()
    states: tuple[StateSpec, ...] = ()
    iterative: bool = False

    @property
    def correlation(self) -> ControlSpec | None:
        return next((c for c in self.controls if c.kind is ControlKind.CORRELATION), None)


def read_sequence_batching(proto: Any) -> SequenceBatching | None:
    """None for a model that has none; the proto is complete and checked (see `sequence_rules`)."""
    if not proto.HasField("sequence_batching"):
        return None
    entry = proto.sequence_batching
    return SequenceBatching(
        strategy=_oldest(entry.oldest) if entry.HasField("oldest") else _direct(entry.direct),
        max_idle_ns=entry.max_sequence_idle_microseconds * 1000,
        controls=tuple(
            _control(tensor.name, control)
            for tensor in entry.control_input
            for control in tensor.control
        ),
        states=tuple(_state(state) for state in entry.state),
        iterative=entry.iterative_sequence,
    )


def _direct(entry: Any) -> DirectStrategy:
    return DirectStrategy(entry.max_queue_delay_microseconds * 1000, entry.minimum_slot_utilization)


def _oldest(entry: Any) -> OldestStrategy:
    return OldestStrategy(
        max_candidate_sequences=max(entry.max_candidate_sequences, 0),
        preferred_batch_sizes=tuple(sorted(set(entry.preferred_batch_size))),
        max_queue_delay_ns=entry.max_queue_delay_microseconds * 1000,
        preserve_ordering=entry.preserve_ordering,
    )


def _control(name: str, entry: Any) -> ControlSpec:
    kind = ControlKind(entry.kind)
    if kind is ControlKind.CORRELATION:
        return ControlSpec(name, kind, wire_name(entry.data_type))
    field, datatype = next(
        (field, datatype) for field, datatype in CONTROL_LISTS.items() if getattr(entry, field)
    )
    false, true = getattr(entry, field)
    return ControlSpec(name, kind, datatype, false, true)


def _state(entry: Any) -> StateSpec:
    dims = tuple(entry.dims)
    initial = InitialState(tuple(1 if dim == -1 else dim for dim in dims))
    if entry.initial_state:
        given = entry.initial_state[0]
        sizes = tuple(1 if dim == -1 else dim for dim in given.dims) or initial.dims
        initial = InitialState(sizes, given.data_file)
    return StateSpec(entry.input_name, entry.output_name, wire_name(entry.data_type), dims, initial)
