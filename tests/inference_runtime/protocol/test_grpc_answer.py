from types import SimpleNamespace

import pytest

from inference_runtime import pb
from inference_runtime.protocol import grpc_answer
from inference_runtime.spec.messages import (
    InferResponse,
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)

VERSION = SimpleNamespace(labels={}, config=SimpleNamespace(batching=True))
HEAD = ResponseHead(
    "m",
    "3",
    (TensorHead("A", "INT8", (1, 2)), TensorHead("B", "BYTES", (1, 1))),
    {"text": "x", "whole": 1, "flag": True, "number": 0.5},
)
ANSWER = InferResponse(HEAD, [memoryview(b"\x01\x05"), b"\x01\0\0\0z"])


def encode(*outputs, id_="", final=None):
    request = RequestHead("m", "", (), tuple(outputs))
    parts = grpc_answer.encode(request, id_, ANSWER, VERSION, final=final)
    return pb.ModelInferResponse.FromString(b"".join(parts))


def test_everything_of_the_answer_is_there():
    response = encode(id_="7")
    assert (response.model_name, response.model_version, response.id) == ("m", "3", "7")
    assert [(o.name, o.datatype, list(o.shape)) for o in response.outputs] == [
        ("A", "INT8", [1, 2]),
        ("B", "BYTES", [1, 1]),
    ]
    assert list(response.raw_output_contents) == [b"\x01\x05", b"\x01\0\0\0z"]
    assert {
        key: getattr(value, value.WhichOneof("parameter_choice"))
        for key, value in response.parameters.items()
    } == {"text": "x", "whole": 1, "flag": True, "number": 0.5}


def test_only_asked_outputs_are_sent_with_classes_where_wanted():
    response = encode(RequestedOutput("A", class_count=1))
    (output,) = response.outputs
    assert (output.datatype, list(output.shape)) == ("BYTES", [1, 1])
    assert response.raw_output_contents[0] == b"\x03\0\0\x005:1"


def test_a_stream_answer_wraps_the_response():
    request = RequestHead("m", "", ())
    parts = grpc_answer.stream_answer(grpc_answer.encode(request, "7", ANSWER, VERSION, final=True))
    message = pb.ModelStreamInferResponse.FromString(b"".join(parts))
    assert message.error_message == ""
    assert message.infer_response.id == "7"
    assert message.infer_response.parameters["triton_final_response"].bool_param is True


def test_a_stream_fault_tells_whether_it_was_accepted():
    before = pb.ModelStreamInferResponse.FromString(grpc_answer.stream_fault("bad", "7", None))
    assert (before.error_message, before.infer_response.id) == ("bad", "7")
    assert "triton_final_response" not in before.infer_response.parameters
    head = RequestHead("m", "2", ())
    after = pb.ModelStreamInferResponse.FromString(grpc_answer.stream_fault("bad", "7", head))
    assert (after.infer_response.model_name, after.infer_response.model_version) == ("m", "2")
    assert after.infer_response.parameters["triton_final_response"].bool_param is True


@pytest.mark.parametrize(
    ("message", "id_"),
    [(pb.ModelInferRequest(id="7").SerializeToString(), "7"), (b"\xff\xff", "")],
    ids=["readable", "not readable"],
)
def test_the_id_of_a_refused_message_is_found_if_it_can_be(message, id_):
    assert grpc_answer.id_of(message) == id_


@pytest.mark.parametrize(
    ("datatype", "outputs", "plain"),
    [
        ("INT8", (), True),
        ("BYTES", (), False),
        ("INT8", (RequestedOutput("A"),), True),
        ("INT8", (RequestedOutput("A", class_count=2),), False),
        ("INT8", (RequestedOutput("B"),), False),
    ],
)
def test_an_answer_is_plain_when_only_its_data_varies(datatype, outputs, plain):
    head = ResponseHead("m", "1", (TensorHead("A", datatype, (1,)),))
    assert grpc_answer.is_plain(RequestHead("m", "", (), outputs), head) is plain
