"""Controls and states as a backend gets them: values, shapes, rows, what is kept and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from inference_runtime.errors import Internal
from inference_runtime.instances.injected_inputs import InjectedInputs
from inference_runtime.instances.sequence_batch import ImplicitState, SequenceBatch
from inference_runtime.scheduling.sequence_requests import filler_of
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_config import read
from inference_runtime.spec.sequence_config import InitialState

CONTROLS = """
control_input { name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }
control_input { name: "E" control { kind: CONTROL_SEQUENCE_END bool_false_true: [false, true] } }
control_input { name: "R" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [-5, 9] } }
control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_%s } }
"""
STATE = 'state { input_name: "i" output_name: "o" data_type: TYPE_%s dims: %s }'


def injected(text, *, batching=True, initial=None):
    proto = config_from_text(
        f'name: "m" max_batch_size: {4 if batching else 0} sequence_batching {{ {text} }}'
    )
    config = read(proto)
    sequences = config.sequence_batching
    assert sequences is not None
    if initial is not None:
        states = tuple(replace(state, initial=initial) for state in sequences.states)
        sequences = replace(sequences, states=states)
    return InjectedInputs(config, sequences)


def request(id_=7, flags=""):
    head = RequestHead(
        "m", "", (), sequence_id=id_, sequence_start="s" in flags, sequence_end="e" in flags
    )
    return InferRequest(head, [], lambda *_: None, None, 0)


def batch(*requests, states=None):
    """None is a filler."""
    real = [r for r in requests if r is not None]
    rows = [r or filler_of(real[0]) for r in requests]
    places = tuple(n for n, r in enumerate(requests) if r is not None)
    return SequenceBatch(rows, places, states or [ImplicitState() for _ in real])


def test_controls_by_row():
    arrays = injected(CONTROLS % "UINT64").controls(batch(request(7, "s"), None, request(8, "e")))
    assert [array.dtype.name for array in arrays] == ["float32", "bool", "int32", "uint64"]
    assert all(array.shape == (3, 1) for array in arrays)
    assert [array.ravel().tolist() for array in arrays] == [
        [1, 0, 0],
        [False, False, True],
        [9, -5, 9],
        [7, 0, 8],
    ]


def test_controls_without_a_batch_dimension():
    arrays = injected(CONTROLS % "UINT64", batching=False).controls(batch(request(7, "se")))
    assert [array.shape for array in arrays] == [(1,)] * 4


@pytest.mark.parametrize(
    ("datatype", "id_", "expected"),
    [
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT64", 2**64 - 1, -1),
        ("UINT32", 2**32 + 3, 3),
        ("INT32", 2**31, -(2**31)),
        ("STRING", "x" * 200, b"x" * 200),
    ],
)
def test_ids_of_each_datatype(datatype, id_, expected):
    array = injected(CONTROLS % datatype).controls(batch(request(id_)))[3]
    assert array.ravel().tolist() == [expected]


def test_a_filler_of_a_text_id_has_none():
    array = injected(CONTROLS % "STRING").controls(batch(None, request("abc")))[3]
    assert array.ravel().tolist() == [b"", b"abc"]


def test_a_state_goes_from_step_to_step_and_fillers_have_the_initial_one():
    inputs = injected(STATE % ("FP32", "2"))
    state = ImplicitState()
    first = batch(request(flags="s"), states=[state])
    assert inputs.arrays(first)[0].tolist() == [[0, 0]]
    inputs.keep(first, {"o": np.array([[1, 2]], np.float32)})
    second = batch(None, request(), states=[state])
    assert inputs.arrays(second)[0].tolist() == [[0, 0], [1, 2]]
    inputs.keep(second, {"o": np.array([[8, 8], [3, 4]], np.float32)})
    third = batch(request(), states=[state])
    assert inputs.arrays(third)[0].tolist() == [[3, 4]]
    again = batch(request(flags="s"), states=[state])
    assert inputs.arrays(again)[0].tolist() == [[0, 0]]


def test_a_state_keeps_nobody_elses_rows_alive():
    inputs = injected(STATE % ("FP32", "2"))
    states = [ImplicitState(), ImplicitState()]
    given = np.zeros((2, 2), np.float32)
    inputs.keep(batch(request(), request(8), states=states), {"o": given})
    assert states[0].values is not None
    assert states[0].values[0].base is None


def test_the_size_of_an_open_dimension_is_what_the_model_gave():
    inputs = injected(STATE % ("INT64", "[2, -1]"), batching=False)
    state = ImplicitState()
    step = batch(request(flags="s"), states=[state])
    assert inputs.arrays(step)[0].shape == (2, 1)
    inputs.keep(step, {"o": np.ones((2, 5), np.int64)})
    assert inputs.arrays(batch(request(), states=[state]))[0].shape == (2, 5)


def test_strings_begin_empty_or_as_the_file_says():
    empty = injected(STATE % ("STRING", "2"))
    assert empty.arrays(batch(request(flags="s")))[0].tolist() == [[b"", b""]]
    initial = InitialState((2,), "f", b"\x01\x00\x00\x00a\x00\x00\x00\x00")
    given = injected(STATE % ("STRING", "2"), initial=initial)
    assert given.arrays(batch(request(flags="s")))[0].tolist() == [[b"a", b""]]


def test_numbers_begin_as_the_file_says_and_the_file_stays_as_it_is():
    initial = InitialState((2,), "f", np.array([5, 6], "<f4").tobytes())
    inputs = injected(STATE % ("FP32", "2"), initial=initial)
    array = inputs.arrays(batch(request(flags="s")))[0]
    assert array.tolist() == [[5, 6]]
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (np.zeros((1, 2), np.float64), "state 'o' of model 'm' has data-type float64"),
        (np.zeros((1, 3), np.float32), r"has shape [1,3], but the config says [1,2]"),
        (np.zeros((2, 2), np.float32), r"has shape [2,2], but the config says [1,2]"),
        (np.zeros((2,), np.float32), r"has shape [2], but the config says [1,2]"),
    ],
)
def test_a_state_of_another_kind_fails_the_step(given, text):
    inputs = injected(STATE % ("FP32", "2"))
    with pytest.raises(Internal) as caught:
        inputs.keep(batch(request()), {"o": given})
    assert text in caught.value.text
