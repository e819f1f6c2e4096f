"""Sequence batching against the file: what completes a config, what contradicts it, initial states on disk."""

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument, RuntimeFault, Unsupported
from tests.inference_runtime.backends.loading import prepare, start
from tests.inference_runtime.core_world import core_world
from tests.onnx_models import write_model
from tests.sequence_models import accumulator, accumulator_config


def bare(**more):
    """Sequence batching only: the rest is the file's."""
    rest = accumulator_config(**more).split("sequence_batching", 1)[1]
    return f"max_batch_size: 4 sequence_batching{rest}"


def fault(tmp_path, model, config, kind=InvalidArgument) -> str:
    with pytest.raises(RuntimeFault) as caught:
        prepare(tmp_path, model, config)
    assert isinstance(caught.value, kind)
    return caught.value.text


def test_controls_and_states_are_no_ports_of_clients(tmp_path):
    config = prepare(tmp_path, accumulator(), bare()).config
    assert [spec.name for spec in config.inputs] == ["INPUT0"]
    assert {spec.name for spec in config.outputs} == {"OUTPUT0", "FLAGS", "ID"}
    names = [spec.name for spec in config.backend_inputs]
    assert names == ["INPUT0", "START", "READY", "END", "CORRID", "SUM_IN"]
    assert not config.proto.HasField("dynamic_batching")


def test_a_backend_gets_them_behind_the_clients_inputs(tmp_path):
    backend = start(prepare(tmp_path, accumulator(), bare()))
    flags = [np.array([[flag]], np.int32) for flag in (1, 1, 0)]
    id_ = np.array([[7]], np.uint64)
    sums = [np.array([[value]], np.int32) for value in (5, 30)]
    outputs = backend.execute([sums[0], *flags, id_, sums[1]], ["OUTPUT0", "FLAGS", "ID"])
    assert [output.ravel().tolist() for output in outputs] == [[35], [3], [7]]
    backend.unload()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ('name: "START"', 'name: "BEGIN"'),
            "unable to load model 'm', configuration specified sequence control 'BEGIN', but model "
            "does not provide that input",
        ),
        (
            ('input_name: "SUM_IN"', 'input_name: "SUM"'),
            "configuration specified state 'SUM', but model does not provide that input",
        ),
        (
            ('output_name: "SUM_OUT"', 'output_name: "SUM"'),
            "configuration specified state 'SUM', but model does not provide that output",
        ),
        (
            ("TYPE_INT32 dims: 1  }\n}", "TYPE_FP32 dims: 1 }\n}"),
            "configuration expects datatype TYPE_FP32 for state 'SUM_IN', model provides TYPE_INT32",
        ),
        (
            ("TYPE_INT32 dims: 1  }\n}", "TYPE_INT32 dims: [1, 1] }\n}"),
            "model 'm', tensor 'SUM_IN': the model expects 2 dimensions (shape [-1,1])",
        ),
    ],
)
def test_a_config_that_names_what_the_file_has_not(tmp_path, change, text):
    # All ports are written down, so that the names are all that can be wrong.
    config = accumulator_config().replace(*change)
    assert text in fault(tmp_path, accumulator(), config)


def test_a_control_of_another_datatype(tmp_path):
    text = fault(tmp_path, accumulator("FP32"), accumulator_config())
    assert "datatype TYPE_INT32 for sequence control 'START', model provides TYPE_FP32" in text


def test_an_input_that_nobody_gives_is_missed(tmp_path):
    lines = accumulator_config().splitlines()
    config = "\n".join(line for line in lines if 'name: "CORRID"' not in line)
    text = fault(tmp_path, accumulator(), config)
    assert "configuration expects 5 inputs, model provides 6" in text


def initial(file):
    return f'initial_state {{ data_type: TYPE_INT32 dims: 1 data_file: "{file}" }}'


def test_an_initial_state_is_read_from_its_directory(tmp_path):
    directory = tmp_path / "m" / "initial_state"
    directory.mkdir(parents=True)
    (directory / "forty").write_bytes(np.array([40], "<i4").tobytes())
    config = prepare(tmp_path, accumulator(), accumulator_config(state=initial("forty"))).config
    assert config.sequence_batching is not None
    assert config.sequence_batching.states[0].initial.data == b"\x28\0\0\0"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("missing", "can not be read"),
        ("../config.pbtxt", "must not contain empty, '.' or '..' components"),
        ("link", "leads outside of its directory through a link"),
        ("short", "holds 3 bytes, expected 4"),
    ],
)
def test_an_initial_state_that_can_not_be_used(tmp_path, file, text):
    directory = tmp_path / "m" / "initial_state"
    directory.mkdir(parents=True)
    (directory / "short").write_bytes(b"123")
    (tmp_path / "secret").write_bytes(b"1234")
    (directory / "link").symlink_to(tmp_path / "secret")
    message = fault(tmp_path, accumulator(), accumulator_config(state=initial(file)))
    assert message.startswith(f"initial state file '{file}' of state 'SUM_IN' of model 'm'")
    assert text in message


def test_a_backend_that_answers_request_by_request_has_no_implicit_state(tmp_path):
    state = 'state { input_name: "i" output_name: "o" data_type: TYPE_INT32 dims: 1 }'
    text = (
        'backend: "repeat" model_transaction_policy { decoupled: true } '
        'output { name: "OUT" data_type: TYPE_INT32 dims: 1 } '
        f"sequence_batching {{ {state} }}"
    )
    assert "asks for implicit state" in fault(tmp_path, None, text, Unsupported)


@pytest.mark.parametrize("corrid", ["UINT64", "BYTES"])
async def test_a_warm_up_sample_need_not_name_controls_and_states(tmp_path, corrid):
    sample = """model_warmup { name: "one" batch_size: 2
        inputs { key: "INPUT0" value { data_type: TYPE_INT32 dims: 1 zero_data: true } } }"""
    config = accumulator_config(corrid=corrid, more=sample)
    write_model(tmp_path, "m", accumulator(corrid=corrid), config=config)
    async with core_world(tmp_path) as world:
        await world.load("m")
        assert world.states("m") == {"1": ("READY", "")}
