"""Section 9.4 of the compliance checklist: ModelStreamInfer, with models that answer once, often, or never."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from tests.conformance.raw_grpc import message_of, open_stub
from tests.conformance.repeat_model import (
    final,
    inflight,
    open_stream,
    repeat_inputs,
    write_repeat,
)
from tests.onnx_models import add_sub, write_model

pytestmark = pytest.mark.conformance
_SLOW = """
backend: "identity" max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "execute_delay_ms" value { string_value: "%d" } }
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_repeat(path)
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    for name, delay_ms in (("slow", 300), ("quick", 0)):
        (path / name / "1").mkdir(parents=True)
        (path / name / "config.pbtxt").write_text(_SLOW % delay_ms)
    return path


@pytest.fixture
def client(server):
    with server.grpc_client() as client:
        yield client


def simple_inputs(width=16, *, data_width=None):
    tensors = []
    for name in ("INPUT0", "INPUT1"):
        tensor = grpcclient.InferInput(name, [1, data_width or width], "INT32")
        tensor.set_data_from_numpy(np.ones((1, data_width or width), np.int32))
        tensor.set_shape([1, width])
        tensors.append(tensor)
    return tensors


def echo_inputs(value: float):
    tensor = grpcclient.InferInput("INPUT0", [1], "FP32")
    tensor.set_data_from_numpy(np.array([value], np.float32))
    return [tensor]


def test_check_075_unary_infer_of_a_decoupled_model_is_unimplemented(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("repeat", repeat_inputs([1]))
    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"
    assert "ModelInfer RPC doesn't support models with decoupled transaction policy" in str(
        caught.value
    )


def test_check_056_http_infer_of_a_decoupled_model_is_501(server):
    status, body = server.call("POST", "/v2/models/repeat/infer", _as_json([1]))
    assert status == 501
    assert body == {
        "error": "HTTP end point doesn't support models with decoupled transaction policy"
    }


def _as_json(values):
    return {
        "inputs": [
            {"name": "IN", "datatype": "INT32", "shape": [len(values)], "data": values},
            {
                "name": "DELAY",
                "datatype": "UINT32",
                "shape": [len(values)],
                "data": [0] * len(values),
            },
            {"name": "WAIT", "datatype": "UINT32", "shape": [1], "data": [0]},
        ]
    }


def test_check_078_one_bad_request_of_three_costs_only_itself(client):
    with open_stream(client) as stream:
        client.async_stream_infer("simple", simple_inputs(), request_id="1")
        client.async_stream_infer("simple", simple_inputs(8), request_id="2")
        client.async_stream_infer("simple", simple_inputs(), request_id="3")
        first, bad, last = stream.next(), stream.next(), stream.next()
        assert [answer[0].get_response().id for answer in (first, last)] == ["1", "3"]
        assert "unexpected shape for input 'INPUT0'" in str(bad[1])
        stream.repeat([1], request_id="4")
        assert stream.next()[0].get_response().id == "4"


def test_check_078_only_what_a_model_accepted_has_a_final_response(server):
    """The stock client shows the text alone: this one reads the message."""
    refused = {
        "1": ("nobody", simple_inputs(), "Request for unknown model: 'nobody' is not found"),
        "2": ("simple", simple_inputs(8), "unexpected shape for input 'INPUT0'"),
        "3": ("simple", [*simple_inputs()[:1], *simple_inputs(8)[1:]], "unexpected shape"),
        "4": (
            "simple",
            simple_inputs(data_width=15),
            "input byte size mismatch for input 'INPUT0'",
        ),
        "5": ("simple", simple_inputs()[:1], "expected 2 inputs but got 1 inputs"),
    }
    broken = message_of("repeat", repeat_inputs([1, 2], delays=[0]), id="6")
    requests = [message_of(model, tensors, id=id_) for id_, (model, tensors, _) in refused.items()]
    with open_stub(server) as stub:
        stream = stub.ModelStreamInfer(iter([*requests, broken]), timeout=30)
        answers = {answer.infer_response.id: answer for answer in stream}
    assert len(answers) == 6
    for id_, (_, _, text) in refused.items():
        assert text in answers[id_].error_message
        assert answers[id_].infer_response == pb.ModelInferResponse(id=id_)
    assert answers["6"].error_message == "expected IN and DELAY shape to match"
    assert answers["6"].infer_response.parameters["triton_final_response"].bool_param
    assert answers["6"].infer_response.model_name == "repeat"


def test_check_079_models_that_answer_once_answer_in_order(client):
    with open_stream(client) as stream:
        client.async_stream_infer("slow", echo_inputs(1), request_id="slow")
        client.async_stream_infer("quick", echo_inputs(2), request_id="quick")
        ids = [result.get_response().id for result in stream.results(2)]
    assert ids == ["slow", "quick"]


def test_check_080_a_decoupled_model_answers_as_often_as_it_likes(client):
    with open_stream(client) as stream:
        stream.repeat([4, 2, 0, 1], request_id="a")
        results = stream.results(4)
        assert [result.as_numpy("OUT")[0] for result in results] == [4, 2, 0, 1]
        assert [result.as_numpy("IDX")[0] for result in results] == [0, 1, 2, 3]
        assert [final(result) for result in results] == [False] * 4
        assert {result.get_response().id for result in results} == {"a"}
        # What follows would come after an empty end, if there had been one.
        stream.repeat([9])
        assert stream.results(1)[0].as_numpy("OUT")[0] == 9


def test_check_080_the_end_is_told_to_who_asks(client):
    with open_stream(client) as stream:
        stream.repeat([1, 2], request_id="a", enable_empty_final_response=True)
        results = stream.results(3)
        assert [final(result) for result in results] == [False, False, True]
        end = results[-1].get_response()
        assert (len(end.outputs), end.id) == (0, "a")
        assert (end.model_name, end.model_version) == ("repeat", "1")


def test_check_081_no_response_at_all(client):
    with open_stream(client) as stream:
        stream.repeat([])
        stream.repeat([], enable_empty_final_response=True)
        [end] = stream.results(1)
        assert final(end)
        assert len(end.get_response().outputs) == 0
        assert stream.idle


def test_check_082_the_only_answer_is_the_final_one(client):
    with open_stream(client) as stream:
        client.async_stream_infer("simple", simple_inputs())
        assert final(stream.results(1)[0])


def test_check_083_decoupled_requests_interleave_by_time(client):
    with open_stream(client) as stream:
        stream.repeat([1, 2], delays=[0, 800], request_id="slow")
        stream.repeat([3, 4], delays=[300, 0], request_id="quick")
        ids = [result.get_response().id for result in stream.results(4)]
    assert ids == ["slow", "quick", "quick", "slow"]


def test_check_083_a_decoupled_request_holds_up_nobody(client):
    with open_stream(client) as stream:
        stream.repeat([1], delay_ms=500, request_id="decoupled")
        client.async_stream_infer("quick", echo_inputs(1), request_id="once")
        ids = [result.get_response().id for result in stream.results(2)]
    assert ids == ["once", "decoupled"]


def test_check_084_a_stream_may_ask_to_end_with_the_first_failure(client):
    with open_stream(client, headers={"triton_grpc_error": "true"}) as stream:
        stream.repeat([1, 2], delays=[0])
        error = stream.next()[1]
        assert isinstance(error, InferenceServerException)
        assert error.status() == "StatusCode.INVALID_ARGUMENT"
        assert "expected IN and DELAY shape to match" in str(error)


def test_check_085_closing_a_stream_delivers_what_is_outstanding(client, server):
    with open_stream(client) as stream:
        stream.repeat([1, 2, 3], delay_ms=50)
        client.stop_stream()
        assert [result.as_numpy("OUT")[0] for result in stream.results(3)] == [1, 2, 3]


def test_check_085_cancelling_a_stream_cancels_its_requests(client, server):
    with open_stream(client) as stream:
        stream.repeat(range(1000), delay_ms=20)
        stream.results(1)
        client.stop_stream(cancel_requests=True)
        error = None
        while error is None:
            error = stream.next()[1]
        assert error.status() == "StatusCode.CANCELLED"
    server.wait_for(lambda: inflight(server) == 0, "the end of the cancelled request")


def test_check_185_response_statistics_over_both_protocols(server, client):
    with open_stream(client) as stream:
        before = client.get_inference_statistics("repeat", as_json=True)["model_stats"][0]
        stream.repeat([1, 2], enable_empty_final_response=True)
        stream.results(3)
        after = client.get_inference_statistics("repeat", as_json=True)["model_stats"][0]
    for index, kind in (("0", "success"), ("1", "success"), ("2", "empty_response")):
        grown = _count(after, index, kind) - _count(before, index, kind)
        assert grown == 1, (index, kind)
    over_http = server.call("GET", "/v2/models/repeat/stats")[1]["model_stats"][0]
    for index in ("0", "1", "2"):
        assert _count(over_http, index, "success") == _count(after, index, "success")


def _count(stats, index, kind) -> int:
    return int(stats.get("response_stats", {}).get(index, {}).get(kind, {}).get("count", 0))
