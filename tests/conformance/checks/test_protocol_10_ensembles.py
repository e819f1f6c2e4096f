"""Section 9.10 of the compliance checklist: ensembles, through the stock clients."""

from functools import partial

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.checklist_models import write_echo
from tests.conformance.python_models import write_python_model
from tests.conformance.repeat_model import open_stream, repeat_inputs, write_repeat
from tests.conformance.runtime_process import runtime
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_sub, failing, write_model

pytestmark = pytest.mark.conformance
INTS = "data_type: TYPE_INT32 dims: [16]"
LONG = "data_type: TYPE_INT64 dims: [1]"
PORTS = {"INPUT0": INTS, "INPUT1": INTS}
RESULTS = {"OUTPUT0": INTS, "OUTPUT1": INTS}
BATCH = "max_batch_size: 8"


def write_models(path):
    write_model(path, "simple", add_sub(), config=BATCH)
    write_model(path, "other", add_sub(), config=BATCH)
    write_model(path, "failing", failing(), config=BATCH)
    # OUTPUT0 = (a + b) + (a - b), OUTPUT1 = a + b of the second model.
    steps = step(
        "simple", {name: name for name in PORTS}, {"OUTPUT0": "sum", "OUTPUT1": "difference"}
    ) + step("other", {"INPUT0": "sum", "INPUT1": "difference"}, {"OUTPUT0": "OUTPUT0"})
    write_ensemble(path, "twice", steps, inputs=PORTS, outputs={"OUTPUT0": INTS}, more=BATCH)
    fork = step("simple", {name: name for name in PORTS}, {"OUTPUT0": "OUTPUT0"}) + step(
        "other", {name: name for name in PORTS}, {"OUTPUT1": "OUTPUT1"}
    )
    write_ensemble(path, "fork", fork, inputs=PORTS, outputs=RESULTS, more=BATCH)
    bad = step("failing", {"INDEX": "INDEX"}, {"OUTPUT0": "OUTPUT0"})
    write_ensemble(path, "bad", bad, inputs={"INDEX": LONG}, outputs={"OUTPUT0": LONG}, more=BATCH)
    write_repeat(path)
    ports = {
        "IN": "data_type: TYPE_INT32 dims: [-1]",
        "DELAY": "data_type: TYPE_UINT32 dims: [-1]",
        "WAIT": "data_type: TYPE_UINT32 dims: [1]",
    }
    write_ensemble(
        path,
        "stream",
        step("repeat", {name: name for name in ports}, {"OUT": "OUT", "IDX": "IDX"}),
        inputs=ports,
        outputs={
            "OUT": "data_type: TYPE_INT32 dims: [1]",
            "IDX": "data_type: TYPE_UINT32 dims: [1]",
        },
        more="",
    )


# OUTPUT1 is left out where INPUT0 begins with 1.
_FORGETFUL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        array = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
        names = ["OUTPUT0"] if array.flat[0] == 1 else ["OUTPUT0", "OUTPUT1"]
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name in names])
"""


def write_forgetful(path):
    """`forgets`: one step leaves out an output; `waits`: another step wants just that one."""
    ports = "".join(
        f'{kind} {{ name: "{name}" {INTS} }}\n'
        for kind, name in (("input", "INPUT0"), ("output", "OUTPUT0"), ("output", "OUTPUT1"))
    )
    write_python_model(path, "forgetful", source=_FORGETFUL, config=f"{BATCH}\n{ports}")
    forgetful = step("forgetful", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0", "OUTPUT1": "left"})
    write = partial(write_ensemble, path, inputs={"INPUT0": INTS}, outputs=RESULTS, more=BATCH)
    write("forgets", forgetful.replace('"left"', '"OUTPUT1"'))
    after = step("simple", {"INPUT0": "OUTPUT0", "INPUT1": "left"}, {"OUTPUT0": "OUTPUT1"})
    write("waits", forgetful + after)


# Gives its answers the sequence parameters that the number stands for.
_NAMES = """
import triton_python_backend_utils as pb_utils

GIVEN = [{}, {"sequence_id": 77, "sequence_start": True}, {"sequence_end": True}, {"other": 1}]


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        given = GIVEN[int(value[0])]
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)], parameters=given)
"""
# What it is told of the sequence.
_TELLS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        told = np.array([request.correlation_id(), request.flags()], np.int64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", told)])
"""


def write_named(path):
    """`named`: the first step names the sequence, the last one tells what it is told of it."""
    number, told = "data_type: TYPE_INT32 dims: [1]", "data_type: TYPE_INT64 dims: [2]"
    names = f'input {{ name: "IN" {number} }} output {{ name: "OUT" {number} }}'
    write_python_model(path, "names", source=_NAMES, config=names)
    tells = f'input {{ name: "IN" {number} }} output {{ name: "OUT" {told} }}'
    write_python_model(path, "tells", source=_TELLS, config=tells)
    write_echo(path, "echoes", more="max_batch_size: 0", datatype="INT32", dims=[1])
    steps = (
        step("names", {"IN": "IN"}, {"OUT": "named"})
        + step("echoes", {"INPUT0": "named"}, {"OUTPUT0": "echoed"})
        + step("tells", {"IN": "echoed"}, {"OUT": "OUT"})
    )
    write_ensemble(path, "named", steps, inputs={"IN": number}, outputs={"OUT": told}, more="")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_models(path)
    write_forgetful(path)
    write_named(path)
    return path


@pytest.fixture(scope="module")
def options():
    names = ("twice", "fork", "bad", "stream", "forgets", "waits", "named")
    return [f"--load-model={name}" for name in names]


def data(rows: int) -> dict[str, np.ndarray]:
    first = np.arange(rows * 16, dtype=np.int32).reshape(rows, 16)
    return {"INPUT0": first, "INPUT1": first[::-1].copy() * 3}


def executions(server, model) -> int:
    return server.call("GET", f"/v2/models/{model}/stats")[1]["model_stats"][0]["execution_count"]


@pytest.mark.parametrize("rows", [1, 8])
def test_check_152_an_ensemble_gives_what_its_models_give(client, rows):
    inputs = data(rows)
    result = client.ask("twice", inputs).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(result, 2 * inputs["INPUT0"])
    first = client.ask("simple", inputs)
    by_hand = client.ask(
        "other", {"INPUT0": first.as_numpy("OUTPUT0"), "INPUT1": first.as_numpy("OUTPUT1")}
    )
    np.testing.assert_array_equal(result, by_hand.as_numpy("OUTPUT0"))


def test_check_152_a_step_that_is_not_needed_does_not_run(client, server):
    before = executions(server, "other")
    result = client.ask("fork", data(1), outputs=["OUTPUT0"])
    assert result.as_numpy("OUTPUT1") is None
    assert executions(server, "other") == before
    client.ask("fork", data(1))
    assert executions(server, "other") == before + 1


def test_check_153_the_error_of_a_step_says_which_ensemble(client):
    outside = {"INDEX": np.array([[10]], np.int64)}
    with pytest.raises(InferenceServerException) as direct:
        client.ask("failing", outside)
    with pytest.raises(InferenceServerException) as through:
        client.ask("bad", outside)
    assert through.value.message() == f"in ensemble 'bad', {direct.value.message()}"
    assert through.value.status() == direct.value.status()


def test_check_155_an_output_that_a_step_leaves_out_is_left_out(client, server):
    server.call("POST", "/v2/logging", {"log_verbose_level": 1})
    for first, there in ((1, False), (2, True), (1, False)):
        given = np.full((1, 16), first, np.int32)
        result = client.ask("forgets", {"INPUT0": given})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), given)
        assert (result.as_numpy("OUTPUT1") is not None) is there
    server.call("POST", "/v2/logging", {"log_verbose_level": 0})
    assert "Composing models did not output tensor OUTPUT1" in server.log


def test_check_155_a_step_that_needs_what_was_left_out_says_so(client):
    given = np.full((1, 16), 1, np.int32)
    with pytest.raises(InferenceServerException) as caught:
        client.ask("waits", {"INPUT0": given})
    assert caught.value.message().startswith("in ensemble 'waits', [request id: <id_unknown>] ")
    missing = (
        "for model 'simple'. Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1']."
    )
    assert missing in caught.value.message()
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    result = client.ask("waits", {"INPUT0": given * 2})
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), given * 4)


def parameters_of(result):
    answer = result.get_response()
    if isinstance(answer, dict):
        return answer.get("parameters", {})
    given = answer.parameters
    return {
        name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in given.items()
    }


def sequence(id_, start, end):
    return {"sequence_id": id_, "sequence_start": start, "sequence_end": end}


@pytest.mark.parametrize(
    ("number", "told", "parameters"),
    [
        (0, [5, 1], {}),
        (1, [77, 1], sequence(77, True, False)),
        (2, [5, 2], sequence(5, False, True)),
        (3, [5, 1], {}),
    ],
)
def test_a_step_may_name_the_sequence_for_all_that_comes_after_it(client, number, told, parameters):
    inputs = {"IN": np.array([number], np.int32)}
    result = client.ask("named", inputs, sequence_id=5, sequence_start=True)
    assert result.as_numpy("OUT").tolist() == told
    assert parameters_of(result) == parameters


def test_check_156_a_decoupled_step_makes_a_decoupled_ensemble(server):
    with server.grpc_client() as client:
        with pytest.raises(InferenceServerException, match="decoupled transaction policy"):
            client.infer("stream", repeat_inputs([1]))
        with open_stream(client) as stream:
            client.async_stream_infer("stream", repeat_inputs([3, 1, 2]))
            results = stream.results(3)
        assert [result.as_numpy("OUT")[0] for result in results] == [3, 1, 2]
    status, body = server.call(
        "POST", "/v2/models/stream/generate", {"IN": [7], "DELAY": [0], "WAIT": [0]}
    )
    assert (status, body["OUT"], body["IDX"]) == (200, 7, 0)


def test_check_177_an_ensemble_is_not_there_without_its_models(tmp_path):
    write_models(tmp_path / "repository")
    with (
        runtime(tmp_path / "repository", tmp_path / "log", "--load-model=fork") as server,
        server.http_client() as client,
    ):
        assert client.is_model_ready("simple")
        client.unload_model("simple")
        assert not client.is_model_ready("fork")
        client.load_model("simple")
        assert client.is_model_ready("fork")
        client.unload_model("fork")
        assert client.is_model_ready("other")
        client.load_model("fork")
        client.unload_model("fork", unload_dependents=True)
        assert not client.is_model_ready("other")  # loaded for the ensemble
        assert client.is_model_ready("simple")  # asked for by name


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ("", "must specify 'step' for ensemble 'e'"),
        (
            step("simple", {"INPUT0": "INPUT0"}, {"OUTPUT0": "X"})
            + step("failing", {"INDEX": "INPUT1"}, {"OUTPUT0": "Y"})
            + step("other", {"INPUT0": "X", "INPUT1": "Y"}, {"OUTPUT0": "OUTPUT0"}),
            "in ensemble e, input INPUT1 in model simple is not mapped to any ensemble tensors",
        ),
        (
            step("e", {name: name for name in PORTS}, {"OUTPUT0": "OUTPUT0"}),
            "circular dependency between ensembles: e -> e",
        ),
        (
            step("simple", {name: name for name in PORTS}, {"OUTPUT0": "X"})
            + step("failing", {"INDEX": "X"}, {"OUTPUT0": "OUTPUT0"}),
            "in ensemble e, ensemble tensor X: inconsistent data type: TYPE_INT32 is inferred from "
            "model simple while TYPE_INT64 is inferred from model failing",
        ),
    ],
)
def test_check_154_what_does_not_fit_is_refused(server, repository, steps, text):
    write_ensemble(repository, "e", steps, inputs=PORTS, outputs={"OUTPUT0": INTS}, more=BATCH)
    with server.http_client() as client, pytest.raises(InferenceServerException) as caught:
        client.load_model("e")
    assert text in str(caught.value) or text in server.log
