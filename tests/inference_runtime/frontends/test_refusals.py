"""Requests that are refused before the core sees them: the core counts each of them, once."""

import json
import zlib
from contextlib import closing

import grpc
import pytest

from inference_runtime import pb
from inference_runtime.errors import FailureReason
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.http_server import HttpOptions
from tests.hostile.wire.raw_h2 import STREAM, RawH2, grpc_frame, message
from tests.inference_runtime.frontends.serving import receive_all, serving, unary

LIMIT = 1 << 20
PATH = "/inference.GRPCInferenceService/ModelInfer"
HEAVY = b'{"inputs":[' + b" " * (1 << 19) + b"}"
READABLE = json.dumps(
    {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
).encode()
FIVE_BYTES = json.dumps(
    {
        "inputs": [
            {
                "name": "INPUT0",
                "shape": [1, 1],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 5},
            }
        ]
    }
).encode()


@pytest.fixture
def served():
    with serving(
        HttpOptions(max_input_bytes=LIMIT), GrpcOptions(max_message_bytes=LIMIT)
    ) as running:
        yield running


def infer(body: bytes, *lines: str, verb="infer", model="ident") -> bytes:
    head = [
        f"POST /v2/models/{model}/{verb} HTTP/1.1",
        "Host: h",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *lines,
        "",
        "",
    ]
    return "\r\n".join(head).encode() + body


def chunked(body: bytes) -> bytes:
    head = "POST /v2/models/ident/infer HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


OVER_HTTP = {
    "no JSON": infer(b"{"),
    "long and no JSON": infer(HEAVY),
    "no inputs": infer(b"{}"),
    "no size": infer(READABLE, "Inference-Header-Content-Length: x"),
    "a size beyond the body": infer(READABLE, "Inference-Header-Content-Length: 9999"),
    "fewer tensors than bytes": infer(
        FIVE_BYTES + b"1234567", f"Inference-Header-Content-Length: {len(FIVE_BYTES)}"
    ),
    "no gzip": infer(b"{" * 9, "Content-Encoding: gzip"),
    "long and no gzip": infer(b"{" * 20_000, "Content-Encoding: gzip"),
    "inflated and no JSON": infer(zlib.compress(b"{"), "Content-Encoding: deflate"),
    "an encoding that nobody knows": infer(READABLE, "Content-Encoding: br"),
    "too long": infer(READABLE + b" " * LIMIT),
    "too long in chunks": chunked(READABLE + b" " * LIMIT),
    "no JSON for a model that is not there": infer(b"{", model="nope"),
    "raw for a model that is not there": infer(
        b"12", "Inference-Header-Content-Length: 0", model="nope"
    ),
    "no JSON to generate from": infer(b"{", verb="generate"),
    "no JSON to stream from": infer(b"{", verb="generate_stream"),
    "too long to generate from": infer(b" " * (LIMIT + 1), verb="generate"),
    "generate of a model that is not there": infer(b"{}", verb="generate", model="nope"),
}


@pytest.mark.parametrize("case", OVER_HTTP)
def test_a_refusal_over_http_is_counted_once(served, case):
    with closing(served.connect_http()) as sock:
        sock.sendall(OVER_HTTP[case])
        status = receive_all(sock).split()[1]
    assert status in (b"400", b"404", b"501")
    assert served.core.refused == [FailureReason.CLIENT]
    assert served.core.seen == []


def wrong_field() -> bytes:
    request = pb.ModelInferRequest(model_name="ident")
    tensor = request.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 1])
    tensor.contents.int_contents.append(1)
    return request.SerializeToString()


OVER_GRPC = {
    "no message": b"\xff\xff\xff",
    "long and no message": b"\xff" * 600_000,
    "values in the wrong field": wrong_field(),
    "too long": bytes(LIMIT + 1),
}


@pytest.mark.parametrize("case", OVER_GRPC)
def test_a_refusal_over_grpc_is_counted_once(served, case):
    with (
        grpc.insecure_channel(served.grpc_address) as channel,
        pytest.raises(grpc.RpcError),
    ):
        unary(channel, PATH)(OVER_GRPC[case], timeout=20)
    assert served.core.refused == [FailureReason.CLIENT]
    assert served.core.seen == []


FRAMES = {
    "two messages": message() + message(),
    "none": b"",
    "half of one": message()[:-1],
    "compressed in no way that is known": grpc_frame(b"x", flag=1),
    "a flag that nobody knows": grpc_frame(b"x", flag=2),
}


@pytest.mark.parametrize("case", FRAMES)
def test_a_call_without_its_one_message_is_counted_once(served, case):
    with served.connect_grpc() as sock:
        assert RawH2(sock).call(payload=FRAMES[case]) not in (None, "0")
    assert served.core.refused == [FailureReason.CLIENT]
    assert served.core.seen == []


def test_each_unreadable_message_of_a_stream_is_counted(served):
    with served.connect_grpc() as sock:
        client = RawH2(sock)
        stream = client.open(client.headers(STREAM))
        for payload in (grpc_frame(b"\xff"), message(), grpc_frame(wrong_field())):
            client.data(stream, payload, end=False)
        client.data(stream, b"")
        assert client.status(stream) == "0"
    assert served.core.refused == [FailureReason.CLIENT] * 2
    assert len(served.core.seen) == 1


def test_a_stream_that_ends_with_a_fault_counts_what_it_could_not_read(served):
    with served.connect_grpc() as sock:
        client = RawH2(sock)
        stream = client.open(client.headers(STREAM))
        client.data(stream, grpc_frame(b"x", flag=2))
        assert client.status(stream) == "13"
    assert served.core.refused == [FailureReason.CLIENT]


def test_what_finds_no_memory_is_not_the_clients_fault():
    with serving(grpc=GrpcOptions(unfinished_bytes=1000)) as served:
        with served.connect_grpc() as sock:
            client = RawH2(sock)
            stream = client.open()
            client.data(stream, message(elements=1000)[:2000], end=False)
            assert client.status(stream) == "8"
        assert served.core.refused == [FailureReason.REJECTED]


def test_administration_is_no_inference(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: h\r\nConnection: close\r\n")
        sock.sendall(b"Content-Length: 1\r\n\r\n{")
        assert receive_all(sock).startswith(b"HTTP/1.1 400")
    assert served.core.refused == []
