"""Generate where the model decides: what it refuses itself, and the load it reports to gateways."""

import http.client
import json

import pytest

from tests.conformance.python_models import write_python_model
from tests.conformance.python_world import HEADER
from tests.conformance.runtime_process import WAIT_SECONDS

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

LOADED = (
    HEADER
    + """
class TritonPythonModel:
    def initialize(self, args):
        family = pb_utils.MetricFamily(
            name="nv_trt_llm_kv_cache_block_metrics",
            description="blocks of the cache",
            kind=pb_utils.MetricFamily.GAUGE,
        )
        self.kept = [family]
        for kind, value in {"tokens_per": 64, "used": 3, "max": 12, "free": 9}.items():
            metric = family.Metric(labels={"model": "loaded", "kv_cache_block_type": kind})
            metric.set(value)
            self.kept.append(metric)

    def execute(self, requests):
        answers = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if given[0] < 0:
                error = pb_utils.TritonError("no thanks", pb_utils.TritonError.CANCELLED)
                answers.append(pb_utils.InferenceResponse(error=error))
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", given)]))
        return answers
"""
)

TEXTS = """
    model_transaction_policy { decoupled: True }
    input { name: "PROMPT" data_type: TYPE_STRING dims: [1] }
    input { name: "STREAM" data_type: TYPE_BOOL dims: [1] }
    input { name: "REPETITION" data_type: TYPE_INT32 dims: [1] optional: true }
    output { name: "TEXT" data_type: TYPE_STRING dims: [1] }
"""


@pytest.fixture(
    scope="module",
    params=[(), ("--frontends=2",)],
    ids=["one process", "front-end processes"],
)
def options(request, options):
    return (*options, *request.param)


@pytest.fixture(scope="module")
def world(world):
    write_python_model(
        world.repository,
        "loaded",
        source=LOADED,
        config="""
        input { name: "IN" data_type: TYPE_INT32 dims: [1] }
        output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
        """,
    )
    assert world.load("loaded") == (200, None)
    write_python_model(world.repository, "mock_llm", config=TEXTS)
    assert world.load("mock_llm") == (200, None)
    return world


def ask(world, verb, value, **headers):
    return post(world, f"loaded/{verb}", {"IN": value}, **headers)


def post(world, path, body, **headers):
    connection = http.client.HTTPConnection(world.server.http, timeout=WAIT_SECONDS)
    try:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request("POST", f"/v2/models/{path}", json.dumps(body), names)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_an_answer_that_the_model_itself_cancels_is_an_answer(world):
    status, headers, body = ask(world, "generate_stream", -1)
    assert (status, headers["Content-Type"]) == (400, "text/event-stream; charset=utf-8")
    assert body == b'data: {"error":"no thanks"}\n\n'
    status, headers, body = ask(world, "generate", -1)
    assert (status, json.loads(body)) == (400, {"error": "no thanks"})


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_gateways_that_ask_are_told_how_full_the_cache_is(world, verb):
    def told(format_):
        status, headers, _ = ask(world, verb, 1, endpoint_load_metrics_format=format_)
        assert status == 200
        return headers["endpoint-load-metrics"]

    kind, _, document = told("json").partition(" ")
    assert kind == "JSON"
    assert json.loads(document) == {
        "named_metrics": {"kv_cache_utilization": 0.25, "max_token_capacity": 768}
    }
    assert told("text") == (
        "TEXT named_metrics.kv_cache_utilization=0.25, named_metrics.max_token_capacity=768"
    )
    assert told("yaml") is None
    assert ask(world, verb, 1)[1]["endpoint-load-metrics"] is None


def test_check_090_a_text_comes_back_as_a_scalar(world):
    body = {"PROMPT": "hello world", "STREAM": False}
    status, headers, answer = post(world, "mock_llm/generate", body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    expected = {"model_name": "mock_llm", "model_version": "1", "TEXT": "hello world"}
    assert json.loads(answer) == expected


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_check_093_inputs_that_are_missing_beside_optional_ones(world, verb):
    status, headers, answer = post(world, f"mock_llm/{verb}", {})
    assert (status, headers["Content-Type"]) == (400, "application/json")
    assert "expected number of inputs between 2 and 3 but got 0" in json.loads(answer)["error"]


def test_check_094_of_two_inputs_of_the_wrong_type_the_first_is_reported(world):
    wrong = {"PROMPT": 123, "STREAM": "no"}
    for keys, text in (
        (("PROMPT", "STREAM"), "attempt to access JSON non-string as string"),
        (("STREAM", "PROMPT"), "attempt to access JSON non-boolean as boolean"),
    ):
        body = {key: wrong[key] for key in keys}
        status, _, answer = post(world, "mock_llm/generate", body)
        assert (status, text in json.loads(answer)["error"]) == (400, True)


def test_check_096_a_nested_parameter_feeds_its_input(world):
    body = {"PROMPT": "x", "STREAM": True, "parameters": {"REPETITION": 4}}
    status, _, answer = post(world, "mock_llm/generate_stream", body)
    assert (status, answer.count(b'"TEXT":"x"')) == (200, 4)


def test_check_097_a_later_failure_is_an_event_of_a_stream_that_began_well(world):
    body = {"PROMPT": "late error", "STREAM": True}
    status, headers, answer = post(world, "mock_llm/generate_stream", body)
    assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    first, second, end = answer.split(b"\n\n")
    assert json.loads(first.removeprefix(b"data: "))["TEXT"] == "late error"
    assert second == b'data: {"error":"the prompt says so: late error"}'
    assert end == b""
