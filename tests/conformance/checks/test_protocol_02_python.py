"""Checks 17, 53, 58 and 118 of the compliance checklist, which need models that are programs."""

import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

PARAMETERS = {"text": "x", "count": 3, "share": 0.25, "flag": True}
TEXTS = """
    input { name: "CODE" data_type: TYPE_STRING dims: [1] }
    output { name: "RESULT" data_type: TYPE_STRING dims: [1] }
"""
ENSEMBLE = f"""
    platform: "ensemble"
    {TEXTS}
    ensemble_scheduling {{ step [ {{
        model_name: "script" model_version: -1
        input_map {{ key: "CODE" value: "CODE" }}
        output_map {{ key: "RESULT" value: "RESULT" }}
    }} ] }}
"""
SEES = "result = json.loads(request.parameters())"
RAISES = {
    'raise ValueError("boom")': (500, "ValueError: boom"),
    'model.error = pb_utils.TritonError("wrong", pb_utils.TritonError.INVALID_ARG)': (400, "wrong"),
    'model.error = pb_utils.TritonError("later", pb_utils.TritonError.UNAVAILABLE)': (503, "later"),
    'model.error = pb_utils.TritonError("nothing", pb_utils.TritonError.NOT_FOUND)': (
        404,
        "nothing",
    ),
}


@pytest.fixture(scope="module")
def ensemble(world):
    directory = world.repository / "around"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(f'name: "around" {ENSEMBLE}')
    status, answer = world.load("around")
    assert status == 200, answer
    return "around"


@pytest.fixture(scope="module")
def server(world):
    return world.server


def ask(client, model, code, **more):
    result = client.ask(model, {"CODE": np.array([code], dtype=np.object_)}, **more)
    return json.loads(result.as_numpy("RESULT")[0])


def test_check_053_request_parameters_reach_the_model_unchanged(client):
    assert ask(client, "script", SEES, parameters=PARAMETERS) == PARAMETERS


def test_check_053_request_parameters_reach_a_model_through_an_ensemble(client, ensemble):
    assert ask(client, ensemble, SEES, parameters=PARAMETERS) == PARAMETERS


def test_check_053_request_parameters_reach_the_model_through_a_stream(world):
    tensor = grpcclient.InferInput("CODE", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([SEES], dtype=np.object_))
    answers = queue.Queue()
    with world.server.grpc_client() as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("script", [tensor], parameters=PARAMETERS)
        result, error = answers.get(timeout=20)
        client.stop_stream()
    assert error is None
    assert json.loads(result.as_numpy("RESULT")[0]) == PARAMETERS


@pytest.fixture(scope="module")
def failing(world):
    world.serve(
        "failing",
        """
        def execute(self, requests):
            self.error = None
            code = requests[0].inputs()[0].as_numpy()[0].decode()
            exec(code, {"pb_utils": pb_utils, "model": self})
            return [pb_utils.InferenceResponse(error=self.error)]
        """,
        TEXTS,
    )
    return "failing"


@pytest.mark.parametrize("code", RAISES)
def test_check_058_errors_of_a_model_keep_their_text_and_code(world, failing, code):
    status, text = RAISES[code]
    body = {"inputs": [{"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}]}
    found, answer = world.server.call("POST", f"/v2/models/{failing}/infer", body)
    assert found == status
    assert text in answer["error"]


def test_check_058_an_exception_reaches_every_client(client, failing):
    with pytest.raises(InferenceServerException, match="ValueError: boom"):
        ask(client, failing, 'raise ValueError("boom")')


def test_check_118_a_model_completes_its_whole_config(world):
    world.write(
        "complete",
        """
        @staticmethod
        def auto_complete_config(config):
            config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1], "optional": True})
            config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
            config.set_max_batch_size(16)
            config.set_dynamic_batching()
            config.set_model_transaction_policy({"decoupled": True})
            return config

        def execute(self, requests):
            return []
        """,
        "",
    )
    assert world.load("complete")[0] == 200
    config = world.server.call("GET", "/v2/models/complete/config")[1]
    (entry,), (out,) = config["input"], config["output"]
    assert (entry["name"], entry["data_type"], entry["dims"]) == ("IN", "TYPE_FP32", [-1])
    assert entry["optional"]
    assert (out["name"], out["dims"]) == ("OUT", [4])
    assert config["max_batch_size"] == 16
    assert config["dynamic_batching"]["preferred_batch_size"] == [16]
    assert config["model_transaction_policy"] == {"decoupled": True}


OUTPUT = '{"name": "OUT", "data_type": "TYPE_INT32", "dims": [1], "optional": True}'


@pytest.mark.parametrize(
    ("name", "statement", "message"),
    [
        ("nothing", "return None", "must return a valid pb.ModelConfig object."),
        (
            "optional_output",
            f"config.add_output({OUTPUT})",
            "output 'OUT' in auto-complete-config function for model 'optional_output' contains property "
            "other than 'name', 'data_type' and 'dims'.",
        ),
        ("raises", 'raise RuntimeError("no idea")', "RuntimeError: no idea"),
        (
            "optional",
            'config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1], "optional": True})',
            "model 'optional', tensor 'IN': the model expects optional True but the model configuration "
            "specifies optional False",
        ),
    ],
)
def test_check_118_what_can_not_be_completed_is_refused(world, name, statement, message):
    body = f"""
        @staticmethod
        def auto_complete_config(config):
            {statement}
            return config
    """
    world.write(name, body)
    assert message in world.refusal(name)


def test_check_118_entries_that_are_configured_stay_first(world):
    world.serve(
        "appended",
        """
        @staticmethod
        def auto_complete_config(config):
            config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
            config.add_input({"name": "MORE", "data_type": "TYPE_BOOL", "dims": [2]})
            return config

        def execute(self, requests):
            return []
        """,
    )
    config = world.server.call("GET", "/v2/models/appended/config")[1]
    assert [entry["name"] for entry in config["input"]] == ["IN", "MORE"]
