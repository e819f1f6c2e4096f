"""What the `sequence_batching` of a config must not say, in Triton's words where it has some. Pure.

Every check raises InvalidArgument or returns.
"""

from collections.abc import Sequence
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.sequence_config import CONTROL_LISTS

DEFAULT_IDLE_MICROSECONDS = 1_000_000
_LISTS = "'int32_false_true', 'fp32_false_true' and 'bool_false_true'"
_LIST_CHOICE = "'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
_CORRELATION = "CONTROL_SEQUENCE_CORRID"
_CORRELATION_TYPES = frozenset(
    pb.DataType.Value(name)
    for name in ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
)


def fill_sequence_batching(proto: Any) -> None:
    """What Triton fills in when a field is left out; changes the proto given."""
    if not proto.HasField("sequence_batching"):
        return
    entry = proto.sequence_batching
    if entry.max_sequence_idle_microseconds == 0:
        entry.max_sequence_idle_microseconds = DEFAULT_IDLE_MICROSECONDS
    oldest = entry.oldest if entry.HasField("oldest") else None
    if oldest is not None and not oldest.preferred_batch_size and proto.max_batch_size > 0:
        oldest.preferred_batch_size.append(proto.max_batch_size)


def injected_inputs(proto: Any) -> list[str]:
    """Names of the inputs that the server fills in: controls, then states."""
    entry = proto.sequence_batching
    controls = [tensor.name for tensor in entry.control_input if tensor.control]
    return controls + [state.input_name for state in entry.state]


def check_sequence_batching(proto: Any) -> None:
    """Run after `fill_sequence_batching` and auto-completion."""
    if not proto.HasField("sequence_batching"):
        return
    entry = proto.sequence_batching
    if entry.HasField("oldest"):
        _check_preferred(entry.oldest.preferred_batch_size, proto)
    elif not 0 <= entry.direct.minimum_slot_utilization <= 1:
        raise InvalidArgument(
            "sequence batching minimum slot utilization must be in range (0.0, 1.0] "
            f"for {proto.name}"
        )
    _Controls(proto).check()
    for state in entry.state:
        _check_state(state, proto.name)
    _check_names(proto)


def _check_preferred(sizes: Sequence[int], proto: Any) -> None:
    start = "sequence batching preferred batch size must be"
    for size in sizes:
        if size <= 0:
            raise InvalidArgument(f"{start} positive for {proto.name}")
        if size > proto.max_batch_size:
            raise InvalidArgument(f"{start} <= max batch size for {proto.name}")


class _Controls:
    def __init__(self, proto: Any) -> None:
        self._name = proto.name
        self._tensors = proto.sequence_batching.control_input

    def check(self) -> None:
        met: set[str] = set()
        for tensor in self._tensors:
            if not tensor.name:
                raise self._fault("sequence batching control tensor must have a name")
            if len(tensor.control) > 1:
                raise self._fault(
                    f"sequence batching control tensor '{tensor.name}' is specified for multiple "
                    "control kinds"
                )
            for control in tensor.control:
                kind = pb.ModelSequenceBatching.Control.Kind.Name(control.kind)
                if kind in met:
                    raise self._fault(f"sequence batching specifies multiple {kind} tensors")
                met.add(kind)
                self._check_control(control, kind)

    def _check_control(self, control: Any, kind: str) -> None:
        given = {field: list(getattr(control, field)) for field in CONTROL_LISTS}
        given = {field: values for field, values in given.items() if values}
        if kind == _CORRELATION:
            self._check_correlation(control, given)
            return
        if not given:
            raise self._fault(f"sequence batching must specify either {_LIST_CHOICE} for {kind}")
        if len(given) > 1:
            raise self._fault(f"sequence batching specifies more than one from {_LISTS} for {kind}")
        for field, values in given.items():
            if len(values) != 2:
                raise self._fault(
                    f"sequence batching control '{field}' must have exactly 2 entries for {kind}"
                )

    def _check_correlation(self, control: Any, given: dict[str, list[float]]) -> None:
        if given:
            raise self._fault(
                f"sequence batching must not specify either {_LISTS} for {_CORRELATION}"
            )
        if control.data_type not in _CORRELATION_TYPES:
            raise InvalidArgument(
                f"unexpected data type for control {_CORRELATION} for {self._name}. Allowed data "
                "types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
            )

    def _fault(self, text: str) -> InvalidArgument:
        return InvalidArgument(f"{text} for {self._name}")


def _check_state(state: Any, model: str) -> None:
    label = state.input_name or state.output_name
    problem = ""
    if not state.input_name:
        problem = "must specify 'input_name'"
    elif not state.output_name:
        problem = "must specify 'output_name'"
    elif state.data_type == pb.DataType.Value("TYPE_INVALID"):
        problem = "must specify 'data_type'"
    elif not state.dims:
        problem = "must specify 'dims'"
    elif any(dim < 1 and dim != -1 for dim in state.dims):
        problem = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
    elif len(state.initial_state) > 1:
        problem = "must not have more than one 'initial_state'"
    elif state.initial_state:
        problem = _initial_problem(state, state.initial_state[0])
    if problem:
        raise InvalidArgument(f"sequence batching state '{label}' {problem} for {model}")


def _initial_problem(state: Any, initial: Any) -> str:
    if initial.WhichOneof("state_data") is None:
        return "must specify either 'zero_data' or 'data_file' for its 'initial_state'"
    if initial.data_type != state.data_type:
        return "has another data type than its 'initial_state'"
    if any(dim < 0 for dim in initial.dims):
        return "must have an 'initial_state' with fixed dims"
    fits = len(initial.dims) == len(state.dims) and all(
        want in (-1, got) for want, got in zip(state.dims, initial.dims, strict=True)
    )
    return (
        "" if fits or not initial.dims else "has an 'initial_state' whose dims do not fit its own"
    )


def _check_names(proto: Any) -> None:
    """Nothing that the server fills in may be a client's input too."""
    names = [entry.name for entry in proto.input] + injected_inputs(proto)
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(
                f"model input '{name}' is specified more than once for {proto.name}"
            )
    outputs = [state.output_name for state in proto.sequence_batching.state]
    for name in outputs:
        if outputs.count(name) > 1:
            raise InvalidArgument(
                f"sequence batching state output '{name}' is specified more than once "
                f"for {proto.name}"
            )
