"""Sections 9.2 and 9.4 of the compliance checklist: headers and metadata that become parameters.

The front ends and the clients are real; the core behind them keeps what reaches it.
"""

import json
import time
from contextlib import contextmanager

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from inference_runtime.cli import UsageError, parse
from inference_runtime.errors import FailureReason
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.header_forwarding import HeaderPattern
from inference_runtime.frontends.http_server import HttpOptions
from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.runtime_process import runtime
from tests.inference_runtime.frontends.serving import serving

pytestmark = pytest.mark.conformance
DATA = np.ones((1, 4), np.float32)
HEADERS = {
    "my_header_1": 'quotes " and \\ backslashes',
    "my_header_2": "caf\u00e9",
    "other": "x",
    "x-my_header": "inside",
}


@contextmanager
def forwarding(pattern: str):
    with serving(
        http=HttpOptions(forwarded=HeaderPattern(pattern)),
        grpc=GrpcOptions(forwarded=HeaderPattern(pattern)),
    ) as served:
        yield served


def infer_http(served, headers=None, model="ident", **more):
    tensor = httpclient.InferInput("INPUT0", DATA.shape, "FP32")
    tensor.set_data_from_numpy(DATA)
    client = httpclient.InferenceServerClient(served.http_address)
    try:
        return client.infer(model, [tensor], headers=headers, **more)
    finally:
        client.close()


def infer_grpc(served, headers=None, model="ident", **more):
    tensor = grpcclient.InferInput("INPUT0", DATA.shape, "FP32")
    tensor.set_data_from_numpy(DATA)
    with grpcclient.InferenceServerClient(served.grpc_address) as client:
        return client.infer(model, [tensor], headers=headers, **more)


def infer_stream(served, headers=None, **more):
    tensor = grpcclient.InferInput("INPUT0", DATA.shape, "FP32")
    tensor.set_data_from_numpy(DATA)
    answers = []
    with grpcclient.InferenceServerClient(served.grpc_address) as client:
        client.start_stream(lambda result, error: answers.append((result, error)), headers=headers)
        client.async_stream_infer("ident", [tensor], **more)
        client.stop_stream()
    ((result, error),) = answers
    if error is not None:
        raise error
    return result


def parameters_of(served):
    return dict(served.call(lambda: served.core.seen.pop()).head.parameters)


def test_check_055_headers_that_match_reach_the_model():
    with forwarding("MY_HEADER.*") as served:
        headers = {**HEADERS, "my_header_2": HEADERS["my_header_2"].encode().decode("latin-1")}
        for more in ({}, {"request_id": "7"}):
            result = infer_http(served, headers, **more)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), DATA)
            assert parameters_of(served) == {
                name: value for name, value in HEADERS.items() if "my_header" in name
            }
        infer_http(served)
        assert parameters_of(served) == {}


def test_check_055_equal_bodies_with_other_headers_are_other_requests():
    with forwarding("^my") as served:
        for value in ("one", "two", "one", "one"):
            infer_http(served, {"My-Header": value}, parameters={"own": 3})
            assert parameters_of(served) == {"own": 3, "My-Header": value}
        infer_http(served, parameters={"own": 3})
        assert parameters_of(served) == {"own": 3}


def test_check_055_the_case_counts_when_the_pattern_says_so():
    with forwarding("(?-i)MY_HEADER.*") as served:
        infer_http(served, {"MY_HEADER_1": "yes", "my_header_2": "no"})
        assert parameters_of(served) == {"MY_HEADER_1": "yes"}


@pytest.mark.parametrize(
    "name", ["sequence_id", "priority", "headers", "binary_data_output", "triton_x"]
)
def test_check_055_reserved_names_can_not_be_forwarded(name):
    with forwarding(".*") as served:
        with pytest.raises(InferenceServerException) as caught:
            infer_http(served, {name: "1"})
        assert caught.value.status() == "400"
        text = f"Header '{name}' is reserved for Triton usage and cannot be forwarded."
        assert text in str(caught.value)
        assert served.core.refused == [FailureReason.CLIENT]
        infer_http(served)
        assert parameters_of(served)["Host"]


@pytest.mark.parametrize("infer", [infer_http, infer_grpc])
def test_check_055_that_there_is_no_such_model_goes_before_reserved_names(infer):
    with forwarding("^timeout$") as served:
        with pytest.raises(InferenceServerException, match="unknown model: 'nobody'"):
            infer(served, {"timeout": "1"}, model="nobody")
        decoupled = served.core.models["ident"].config()
        decoupled.model_transaction_policy.decoupled = True
        served.core.model_config = lambda name, version: decoupled
        with pytest.raises(InferenceServerException, match="decoupled transaction policy"):
            infer(served, {"timeout": "1"})


def test_check_055_generate_gets_them_too():
    with forwarding("MY_HEADER.*") as served:
        body = b'{"INPUT0":"text"}'
        head = (
            "POST /v2/models/ident_str/generate HTTP/1.1\r\nHost: h\r\nMY_HEADER: v\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        with served.connect_http() as sock:
            sock.sendall(head.encode() + body)
            answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["OUTPUT0"] == "text"
        assert parameters_of(served) == {"MY_HEADER": "v"}


def test_check_055_a_pattern_that_would_backtrack_for_ever_costs_nothing():
    with forwarding("(a+)+$") as served:
        began = time.monotonic()
        infer_http(served, {"a" * 30_000 + "b": "1"})
        infer_http(served, {"b": "1"})
        assert parameters_of(served) == {}
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("infer", [infer_grpc, infer_stream])
def test_check_089_metadata_that_match_reach_the_model(infer):
    with forwarding("MY_HEADER.*") as served:
        for value in ("one", 'two "\\', "one"):
            result = infer(served, {"my_header_1": value, "other": "x"}, parameters={"own": 3})
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), DATA)
            assert parameters_of(served) == {"own": 3, "my_header_1": value}
        infer(served)
        assert parameters_of(served) == {}


@pytest.mark.parametrize("infer", [infer_grpc, infer_stream])
def test_check_089_capitals_never_match_when_the_case_counts(infer):
    with forwarding("(?-i)MY_HEADER.*") as served:
        infer(served, {"my_header_1": "x"})
        assert parameters_of(served) == {}


@pytest.mark.parametrize("infer", [infer_grpc, infer_stream])
def test_check_089_reserved_names_can_not_be_forwarded(infer):
    with forwarding("^[^u]") as served:  # everything but user-agent
        with pytest.raises(InferenceServerException) as caught:
            infer(served, {"timeout": "1"})
        text = "Header 'timeout' is reserved for Triton usage and cannot be forwarded."
        assert text in str(caught.value)
        infer(served, {"x": "1", "y-bin": b"\x00"})
        assert parameters_of(served) == {"x": "1"}


def test_check_055_what_is_no_pattern_is_refused():
    for option in ("http", "grpc"):
        with pytest.raises(UsageError, match="is none of RE2: missing"):
            parse(["--model-repository=/m", f"--{option}-header-forward-pattern=(a"])


def test_check_055_a_python_model_sees_them(tmp_path):
    write_python_model(tmp_path / "r", "ident", config=ONE_TO_ONE)
    options = [f"--{port}-header-forward-pattern=MY_HEADER.*" for port in ("http", "grpc")]
    headers = {"my_header_1": 'a "quoted" \\ value', "other": "x"}
    expected = {"my_header_1": headers["my_header_1"], "own": "3"}
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=ident", *options) as server:
        for module, opened in ((httpclient, server.http_client), (grpcclient, server.grpc_client)):
            tensor = module.InferInput("IN", [1], "INT32")
            tensor.set_data_from_numpy(np.array([1], np.int32))
            with opened() as client:
                result = client.infer(
                    "ident", [tensor], headers=dict(headers), parameters={"own": "3"}
                )
            answer = result.get_response()
            if module is httpclient:
                found = answer["parameters"]
            else:
                found = {key: value.string_param for key, value in answer.parameters.items()}
            assert found == expected
