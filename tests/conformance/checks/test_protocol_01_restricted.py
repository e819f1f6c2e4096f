"""Section 9.1 of the compliance checklist: APIs that want a header."""

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from inference_runtime.frontends.restrictions import CATEGORIES
from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_sub, write_model

pytestmark = pytest.mark.conformance
KEY = {"infer-key": "infer-value"}
GRPC_KEY = {"triton-grpc-protocol-infer-key": "infer-value"}
ADMIN = {"admin-key": "admin=value"}
DATA = np.ones((1, 16), np.int32)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    return path


@pytest.fixture(scope="module")
def options():
    rest = ",".join(set(CATEGORIES) - {"metadata", "inference", "statistics", "health"})
    groups = ("metadata,inference:infer-key=infer-value", f"{rest}:admin-key=admin=value")
    return [
        "--load-model=*",
        *(f"--http-restricted-api={group}" for group in groups),
        *(f"--grpc-restricted-protocol={group}" for group in groups),
    ]


def inputs(module):
    tensors = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for tensor in tensors:
        tensor.set_data_from_numpy(DATA)
    return tensors


def test_check_018_restricted_http_apis_want_their_header(server):
    with server.http_client() as client:
        for call in (
            client.get_server_metadata,
            lambda: client.get_model_metadata("simple"),
            lambda: client.infer("simple", inputs(httpclient)),
        ):
            with pytest.raises(InferenceServerException) as caught:
                call()
            assert caught.value.status() == "403"
            assert "This API is restricted, expecting header 'infer-key'" in str(caught.value)
        for wrong in ({"infer-key": "other"}, {"infer-key": ""}, {"admin-key": "infer-value"}):
            with pytest.raises(InferenceServerException, match="restricted"):
                client.get_server_metadata(headers=wrong)
        assert client.get_server_metadata(headers=KEY)["name"] == "triton"
        assert client.get_model_metadata("simple", headers=KEY)["name"] == "simple"
        result = client.infer("simple", inputs(httpclient), headers={"Infer-Key": "infer-value"})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), DATA * 2)
        assert client.get_inference_statistics("simple")["model_stats"]
        assert client.is_server_ready()
        assert client.is_model_ready("simple")


def test_check_018_the_restriction_goes_before_every_other_check(server):
    for method, path in (
        ("GET", "/v2/models/simple/infer"),
        ("POST", "/v2/models/unknown/versions/1/infer"),
        ("POST", "/v2/models/simple/generate"),
        ("DELETE", "/v2"),
        ("POST", "/v2/models/simple"),
    ):
        status, body = server.call(method, path, {"x": 1} if method == "POST" else None)
        assert status == 403
        assert body == {"error": "This API is restricted, expecting header 'infer-key'"}
    assert server.call("GET", "/v2/nowhere")[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/models/simple/config"),
        ("GET", "/v2/models/simple/versions/1/config"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/simple/load"),
        ("POST", "/v2/repository/r/models/simple/unload"),
        ("GET", "/v2/systemsharedmemory/status"),
        ("POST", "/v2/systemsharedmemory/region/r/unregister"),
        ("POST", "/v2/cudasharedmemory/region/r/register"),
        ("GET", "/v2/trace/setting"),
        ("POST", "/v2/models/simple/trace/setting"),
        ("GET", "/v2/logging"),
        ("PUT", "/v2/switchyard/traffic/simple"),
    ],
)
def test_check_018_every_route_is_of_a_category(server, method, path):
    body = {} if method != "GET" else None
    assert server.call(method, path, body)[0] == 403


def test_check_019_restricted_grpc_protocols_want_their_metadata(server):
    text = "This protocol is restricted, expecting header 'triton-grpc-protocol-infer-key'"
    with server.grpc_client() as client:
        for call in (
            client.get_server_metadata,
            lambda **more: client.get_model_metadata("simple", **more),
            lambda **more: client.infer("simple", inputs(grpcclient), **more),
        ):
            for headers in (None, KEY, {next(iter(GRPC_KEY)): "other"}):
                with pytest.raises(InferenceServerException) as caught:
                    call(headers=headers)
                assert caught.value.status() == "StatusCode.UNAVAILABLE"
                assert text in str(caught.value)
            assert call(headers=GRPC_KEY)
        assert client.get_inference_statistics("simple").model_stats
        assert client.is_server_live()
        for call in (
            client.get_log_settings,
            client.get_model_repository_index,
            client.get_system_shared_memory_status,
            client.get_cuda_shared_memory_status,
            client.get_trace_settings,
            lambda: client.get_model_config("simple"),
        ):
            with pytest.raises(InferenceServerException, match="triton-grpc-protocol-admin-key"):
                call()
        client.get_log_settings(headers={"triton-grpc-protocol-admin-key": "admin=value"})


def test_check_019_streams_want_it_too(server):
    found = []

    def callback(result, error):
        found.append(error if result is None else result.as_numpy("OUTPUT0"))

    with server.grpc_client() as client:
        client.start_stream(callback)
        client.async_stream_infer("simple", inputs(grpcclient))
        client.stop_stream()
        assert "This protocol is restricted" in str(found.pop())
        client.start_stream(callback, headers=GRPC_KEY)
        client.async_stream_infer("simple", inputs(grpcclient))
        client.stop_stream()
        np.testing.assert_array_equal(found.pop(), DATA * 2)


def test_check_019_a_restricted_health_includes_the_health_service(repository, tmp_path):
    options = ("--grpc-restricted-protocol=health:k=v",)
    with runtime(repository, tmp_path / "log", *options) as server:
        with grpc.insecure_channel(server.grpc) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            with pytest.raises(grpc.RpcError, match="triton-grpc-protocol-k"):
                check(b"", timeout=10)
            assert (
                check(b"", timeout=10, metadata=(("triton-grpc-protocol-k", "v"),)) == b"\x08\x01"
            )
        assert server.call("GET", "/v2/health/ready")[0] == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [
                "--grpc-restricted-protocol=health:a=b",
                "--grpc-restricted-protocol=trace,health:c=d",
            ],
            "restricted protocol 'health' can not be specified in multiple config groups",
        ),
        (
            ["--http-restricted-api=health:a=b", "--http-restricted-api=health:c=d"],
            "restricted api 'health' can not be specified in multiple config groups",
        ),
        (
            ["--grpc-restricted-protocol=health,model-reposit:a=b"],
            "unknown restricted protocol 'model-reposit'",
        ),
        (["--http-restricted-api=model-reposit:a=b"], "unknown restricted api 'model-reposit'"),
        (["--http-restricted-api=health"], 'Bad option: "--http-restricted-api".'),
        (["--http-restricted-api=health:a"], 'Bad option: "--http-restricted-api".'),
    ],
)
def test_check_020_groups_that_can_not_be_meant_end_the_start(
    repository, tmp_path, options, message
):
    with runtime(repository, tmp_path / "log", *options, wait=False) as server:
        assert server.wait_exit() == 1
        assert message in server.log
