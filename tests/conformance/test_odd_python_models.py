"""Python models that give what no answer can be: their client is told, and nobody else notices."""

import json
import threading

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.conformance.python_models import write_python_model
from tests.conformance.runtime_process import WAIT_SECONDS, runtime

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

SOURCE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().ravel()[0].decode()
        scope = {"np": np, "pb_utils": pb_utils, "request": request, "Speechless": Speechless}
        exec(code, scope)
        return scope.get("answer")
"""
PORTS = """
    input { name: "CODE" data_type: TYPE_STRING dims: [1] }
    output { name: "OUT" data_type: TYPE_STRING dims: [1] }
"""
PAIRS = f"""
    max_batch_size: 2
    dynamic_batching {{ preferred_batch_size: [2] max_queue_delay_microseconds: 20000000 }}
    {PORTS}
"""
DECOUPLED = f"model_transaction_policy {{ decoupled: True }} {PORTS}"

GOOD = 'answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([["fine"]], object))])'
HALF_A_CHARACTER = GOOD.replace("fine", "\\ud800")
NO_ERROR = 'answer = pb_utils.InferenceResponse(error="just a text")'
NO_CODE = 'answer = pb_utils.InferenceResponse(error=pb_utils.TritonError("why", ["INTERNAL"]))'
NO_TENSOR = "answer = pb_utils.InferenceResponse([42])"
NO_WORDS = "raise Speechless()"
NO_TIME = 'answer = pb_utils.InferenceRequest(model_name="single", timeout="soon").exec()'
NO_FLAGS = 'answer = pb_utils.InferenceRequest(model_name="single", flags=1 << 70).exec()'


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def odd(repository, tmp_path_factory):
    for name, config in (("single", PORTS), ("pairs", PAIRS), ("decoupled", DECOUPLED)):
        write_python_model(repository, name, source=SOURCE, config=config)
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(repository, log, "--load-model=*") as server:
        yield server
        assert server.terminate() == 0
        assert "unhealthy" not in server.log


def ask(server, model, code, shape=(1,)):
    given = httpclient.InferInput("CODE", list(shape), "BYTES")
    given.set_data_from_numpy(np.array([code], dtype=np.object_).reshape(shape))
    with server.http_client(network_timeout=WAIT_SECONDS) as client:
        return client.infer(model, [given]).as_numpy("OUT").ravel()[0].decode()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (HALF_A_CHARACTER, "UnicodeEncodeError"),
        (NO_ERROR, "AttributeError"),
        (NO_CODE, "why"),
        (NO_TENSOR, "AttributeError"),
        (NO_WORDS, "Speechless"),
        (NO_TIME, "TypeError"),
        (NO_FLAGS, "OverflowError"),
    ],
)
def test_the_client_is_told_and_the_process_goes_on(odd, code, told):
    with pytest.raises(InferenceServerException, match=told):
        ask(odd, "single", code)
    assert ask(odd, "single", GOOD) == "fine"


@pytest.mark.parametrize("code", [HALF_A_CHARACTER, NO_ERROR, NO_CODE, NO_TENSOR])
@pytest.mark.parametrize("first", [True, False])
def test_the_others_of_the_batch_get_their_answers(odd, code, first):
    found = {}

    def one(which, text):
        try:
            found[which] = ask(odd, "pairs", text, (1, 1))
        except InferenceServerException as error:
            found[which] = error

    asked = [("odd", code), ("good", GOOD)]
    threads = [
        threading.Thread(target=one, args=each) for each in (asked if first else asked[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(found["odd"], InferenceServerException)
    assert found["good"] == "fine"


@pytest.mark.parametrize("flags", ["0", "pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL"])
@pytest.mark.parametrize("code", [HALF_A_CHARACTER, NO_ERROR, NO_TENSOR])
def test_a_response_that_could_not_be_sent_is_no_end_of_a_decoupled_request(odd, code, flags):
    send = f"{code}; request.get_response_sender().send(answer, flags={flags})"
    status, answer = odd.call("POST", "/v2/models/decoupled/generate", {"CODE": send})
    assert status == 500
    assert "Error" in json.dumps(answer)


def load_fault(server, repository, name, source, config):
    write_python_model(repository, name, source=source, config=config)
    status, answer = server.call("POST", f"/v2/repository/models/{name}/load")
    assert status == 400
    return answer["error"]


def test_a_model_file_of_somebody_else_is_not_run(odd, repository):
    config = f'default_model_filename: "../../single/1/model.py" {PORTS}'
    told = load_fault(odd, repository, "borrowed", SOURCE, config)
    assert "the Python model file must lie beside its version" in told


def test_a_completed_config_that_is_none_is_told_in_words(odd, repository):
    source = (
        SOURCE
        + """
    @staticmethod
    def auto_complete_config(config):
        config.add_output({"name": "OUT", "data_type": np.float32, "dims": [1]})
        return config
"""
    )
    told = load_fault(odd, repository, "completed", source, "")
    assert "TypeError" in told
    assert "not JSON serializable" in told
