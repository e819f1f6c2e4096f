"""Sequence batching of a config: gaps filled, faults refused in Triton's words, times in nanoseconds."""

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.sequence_config import (
    ControlKind,
    DirectStrategy,
    OldestStrategy,
    read_sequence_batching,
)
from inference_runtime.spec.sequence_rules import check_sequence_batching, fill_sequence_batching

START = 'control_input { name: "S" control { kind: CONTROL_SEQUENCE_START %s } }'
CORRID = 'control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID %s } }'
STATE = 'state { input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: [2, -1] %s }'
CHOICE = "'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
LISTS = "'int32_false_true', 'fp32_false_true' and 'bool_false_true'"


def config(text, max_batch_size=4):
    proto = config_from_text(f"max_batch_size: {max_batch_size} sequence_batching {{ {text} }}")
    proto.name = "m"
    fill_sequence_batching(proto)
    return proto


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "oldest { preferred_batch_size: 0 }",
            "sequence batching preferred batch size must be positive for m",
        ),
        (
            "oldest { preferred_batch_size: 5 }",
            "sequence batching preferred batch size must be <= max batch size for m",
        ),
        (
            "direct { minimum_slot_utilization: 1.5 }",
            "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m",
        ),
        (
            "direct { minimum_slot_utilization: -0.1 }",
            "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m",
        ),
        (
            "control_input { control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }",
            "sequence batching control tensor must have a name for m",
        ),
        (
            'control_input { name: "S" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } '
            "control { kind: CONTROL_SEQUENCE_END int32_false_true: [0, 1] } }",
            "sequence batching control tensor 'S' is specified for multiple control kinds for m",
        ),
        (
            START % "int32_false_true: [0, 1]"
            + START.replace('"S"', '"T"') % "int32_false_true: [0, 1]",
            "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m",
        ),
        (
            START % "",
            f"sequence batching must specify either {CHOICE} for CONTROL_SEQUENCE_START for m",
        ),
        (
            START % "int32_false_true: [0, 1] fp32_false_true: [0, 1]",
            f"sequence batching specifies more than one from {LISTS} for CONTROL_SEQUENCE_START for m",
        ),
        (
            START % "bool_false_true: [true]",
            "sequence batching control 'bool_false_true' must have exactly 2 entries for "
            "CONTROL_SEQUENCE_START for m",
        ),
        (
            CORRID % "int32_false_true: [0, 1] data_type: TYPE_UINT64",
            f"sequence batching must not specify either {LISTS} for CONTROL_SEQUENCE_CORRID for m",
        ),
        (
            CORRID % "data_type: TYPE_FP32",
            "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are "
            "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
        ),
        (
            'state { output_name: "o" data_type: TYPE_FP32 dims: 1 }',
            "sequence batching state 'o' must specify 'input_name' for m",
        ),
        (
            'state { input_name: "i" data_type: TYPE_FP32 dims: 1 }',
            "sequence batching state 'i' must specify 'output_name' for m",
        ),
        (
            'state { input_name: "i" output_name: "o" dims: 1 }',
            "sequence batching state 'i' must specify 'data_type' for m",
        ),
        (
            'state { input_name: "i" output_name: "o" data_type: TYPE_FP32 }',
            "sequence batching state 'i' must specify 'dims' for m",
        ),
        (
            STATE % "initial_state { data_type: TYPE_INT32 dims: [2, 1] zero_data: true }",
            "sequence batching state 'i' has another data type than its 'initial_state' for m",
        ),
        (
            STATE % "initial_state { data_type: TYPE_FP32 dims: [3, 1] zero_data: true }",
            "sequence batching state 'i' has an 'initial_state' whose dims do not fit its own for m",
        ),
        (
            STATE % "initial_state { data_type: TYPE_FP32 dims: [2, 1] }",
            "sequence batching state 'i' must specify either 'zero_data' or 'data_file' for its "
            "'initial_state' for m",
        ),
        (
            START.replace('"S"', '"i"') % "int32_false_true: [0, 1]" + STATE % "",
            "model input 'i' is specified more than once for m",
        ),
        (
            STATE % "" + STATE.replace('"i"', '"j"') % "",
            "sequence batching state output 'o' is specified more than once for m",
        ),
    ],
)
def test_what_a_config_must_not_say(text, message):
    with pytest.raises(InvalidArgument) as caught:
        check_sequence_batching(config(text))
    assert caught.value.text == message


def test_gaps_are_filled_as_triton_fills_them():
    proto = config("oldest { }")
    assert proto.sequence_batching.max_sequence_idle_microseconds == 1_000_000
    assert list(proto.sequence_batching.oldest.preferred_batch_size) == [4]
    assert not config("oldest { }", 0).sequence_batching.oldest.preferred_batch_size
    assert not config("").sequence_batching.HasField("direct")


def test_the_strategies():
    neither = read_sequence_batching(config("max_sequence_idle_microseconds: 7"))
    assert neither is not None
    assert neither.strategy == DirectStrategy(0, 0.0)
    assert neither.max_idle_ns == 7000
    direct = read_sequence_batching(
        config("direct { max_queue_delay_microseconds: 5 minimum_slot_utilization: 0.5 }")
    )
    assert direct is not None
    assert direct.strategy == DirectStrategy(5000, 0.5)
    oldest = read_sequence_batching(
        config("oldest { max_candidate_sequences: 9 preferred_batch_size: [4, 2] }")
    )
    assert oldest is not None
    assert oldest.strategy == OldestStrategy(9, (2, 4), 0)


def test_controls_carry_their_values_and_datatypes():
    text = START % "fp32_false_true: [-1, 2.5]" + CORRID % "data_type: TYPE_STRING"
    sequences = read_sequence_batching(config(text))
    assert sequences is not None
    start, correlation = sequences.controls
    assert (start.kind, start.datatype, start.false, start.true) == (
        ControlKind.START, "FP32", -1.0, 2.5,
    )  # fmt: skip
    assert correlation.datatype == "BYTES"
    assert sequences.correlation is correlation


def test_an_open_dimension_of_a_state_begins_as_one():
    sequences = read_sequence_batching(config(STATE % ""))
    assert sequences is not None
    (state,) = sequences.states
    assert state.initial.dims == (2, 1)
    assert not state.fixed


def test_a_model_without_sequences_has_none():
    assert read_sequence_batching(config_from_text("max_batch_size: 4")) is None
