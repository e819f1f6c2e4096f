"""Section 9.1 of the compliance checklist: health, metadata, routing."""

import http.client
import itertools
import json

import grpc
import pytest
from google.protobuf import json_format
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_sub, write_model, write_versions

pytestmark = pytest.mark.conformance
EXTENSIONS = [
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
]
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE")
ROUTES = [
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    *(
        f"/v2/models/{model}{end}"
        for model in ("simple", "simple/versions/1", "nobody")
        for end in ("", "/ready", "/config", "/infer", "/generate", "/generate_stream", "/stats")
    ),
    "/v2/models/stats",
    "/v2/models/simple/trace/setting",
    "/v2/repository/index",
    "/v2/repository/models/nobody/load",
    "/v2/repository/models/nobody/unload",
    "/v2/repository/other/index",
    "/v2/repository/other/models/nobody/load",
    "/v2/repository/other/models/nobody/unload",
    *(
        f"/v2/{kind}sharedmemory{end}"
        for kind in ("system", "cuda")
        for place in ("", "/region/r")
        for end in (f"{place}/status", f"{place}/register", f"{place}/unregister")
    ),
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/notapi",
    "/",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "named", add_sub(), config='platform: "onnxruntime_onnx"')
    write_versions(path, 1, 2, 3)
    return path


class Raw:
    """A plain HTTP client."""

    def __init__(self, address: str) -> None:
        self.connection = http.client.HTTPConnection(address, timeout=20)

    def ask(self, method: str, path: str, body: bytes | None = None):
        self.connection.request(method, path, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def raw(server):
    made = Raw(server.http)
    yield made
    made.connection.close()


def test_check_001_a_healthy_server_is_live_and_ready(client):
    assert client.is_server_live() is True
    assert client.is_server_ready() is True


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready"])
def test_check_002_health_has_no_body(raw, path):
    assert raw.ask("GET", path) == (200, b"")


def test_check_003_server_metadata(client, server):
    found = client.names(client.get_server_metadata())
    assert found["name"] == "triton"
    assert isinstance(found["version"], str)
    assert found["version"]
    assert found["extensions"][: len(EXTENSIONS)] == EXTENSIONS
    assert found == server.call("GET", "/v2")[1]


def test_check_003_the_name_is_the_operators(repository, tmp_path):
    with runtime(repository, tmp_path / "log", "--id=mine") as server:
        assert server.call("GET", "/v2")[1]["name"] == "mine"
        with server.grpc_client() as client:
            assert client.get_server_metadata().name == "mine"


def test_check_004_model_metadata(client):
    found = client.names(client.get_model_metadata("simple"))
    assert found["name"] == "simple"
    assert found["versions"] == ["1"]
    assert [(tensor["name"], tensor["datatype"]) for tensor in found["inputs"]] == [
        ("INPUT0", "INT32"),
        ("INPUT1", "INT32"),
    ]
    shapes = [tensor["shape"] for tensor in (*found["inputs"], *found["outputs"])]
    assert [list(map(int, shape)) for shape in shapes] == [[-1, 16]] * 4
    named = client.names(client.get_model_metadata("named"))
    assert named["platform"] == "onnxruntime_onnx"


def test_check_004_a_backend_stands_in_for_a_platform(tmp_path):
    config = (
        'backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] } '
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] }'
    )
    directory = tmp_path / "r" / "echo"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(config)
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=echo") as server:
        assert server.call("GET", "/v2/models/echo")[1]["platform"] == "identity"


def test_check_005_versions_in_metadata(client):
    assert client.names(client.get_model_metadata("versions"))["versions"] == ["1", "2", "3"]
    assert client.names(client.get_model_metadata("versions", "2"))["versions"] == ["2"]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("", "Request for unknown model: 'foo' is not found"),
        ("1", "Request for unknown model: 'foo' is not found"),
    ],
)
def test_check_006_metadata_of_an_unknown_model(client, version, text):
    with pytest.raises(InferenceServerException) as caught:
        client.get_model_metadata("foo", version)
    assert caught.value.message().startswith(text)
    assert caught.value.status() in ("404", "StatusCode.NOT_FOUND")


def test_check_007_metadata_of_an_unknown_version(client):
    with pytest.raises(InferenceServerException) as caught:
        client.get_model_metadata("simple", "99")
    text = "Request for unknown model: 'simple' version 99 is not found"
    assert caught.value.message().startswith(text)
    assert caught.value.status() in ("404", "StatusCode.NOT_FOUND")


@pytest.mark.parametrize(
    "path", ["/v2/notapi", "/notapi/v2", "/v2/models/notapi/foo", "/v2/models/simple/versions/abc"]
)
def test_check_008_unknown_paths_are_not_found(raw, path):
    status, body = raw.ask("GET", path)
    assert (status, list(json.loads(body))) == (404, ["error"])


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v2/health/live"), ("GET", "/v2/models/simple/infer")]
)
def test_check_009_wrong_methods(raw, method, path):
    assert raw.ask(method, path) == (405, b'{"error":"Method Not Allowed"}')


def test_check_010_every_method_on_every_route_leaves_the_server_alive(raw, server):
    for method, path, body in itertools.product(METHODS, ROUTES, (None, b"", b"{}", b"[", b"\xff")):
        if method in ("GET", "HEAD") and body is not None:
            continue
        status, content = raw.ask(method, path, body)
        assert 200 <= status < 600, (method, path)
        # A model that can not be loaded is Triton's one internal error that a client can ask for.
        assert status != 500 or path.endswith("/load"), (method, path, body, content)
        if method == "HEAD":
            assert content == b""
        elif status != 200:
            assert content == b"" or "error" in json.loads(content), (method, path)
    assert server.ready()


def test_check_011_the_config_is_complete_and_typed(client):
    with_names = client.get_model_config(
        "simple", **({} if client.over_http else {"as_json": True})
    )
    if client.over_http:
        assert with_names["max_batch_size"] == 8
        assert type(with_names["instance_group"][0]["count"]) is int
        assert with_names["input"][0]["dims"] == [16]
        assert type(with_names["input"][0]["dims"][0]) is int
        assert with_names["input"][0]["format"] == "FORMAT_NONE"
        assert with_names["input"][0]["is_shape_tensor"] is False
        assert with_names["model_warmup"] == []
        config = with_names
    else:
        config = with_names["config"]
    assert config["name"] == "simple"
    assert config["input"][0]["data_type"] == "TYPE_INT32"


def test_check_012_the_config_is_the_same_over_grpc(server):
    text = json.dumps(server.call("GET", "/v2/models/simple/config")[1])
    with server.grpc_client() as client:
        config = client.get_model_config("simple").config
    assert json_format.Parse(text, pb.ModelConfig()) == config


def test_check_013_ready_models_and_versions(client):
    assert client.is_model_ready("simple") is True
    assert client.is_model_ready("simple", "1") is True
    assert client.is_model_ready("simple", "9") is False


def test_check_014_a_ready_model_has_no_body(raw):
    assert raw.ask("GET", "/v2/models/simple/ready") == (200, b"")
    assert raw.ask("GET", "/v2/models/simple/versions/1/ready") == (200, b"")


def test_check_016_an_unknown_model_is_not_ready(client):
    assert client.is_model_ready("does_not_exist") is False
    assert client.is_model_ready("does_not_exist", "1") is False


def test_check_016_a_version_that_is_none_is_a_fault_over_grpc(server):
    with grpc.insecure_channel(server.grpc) as channel:
        ready = channel.unary_unary("/inference.GRPCInferenceService/ModelReady")
        request = pb.ModelReadyRequest(name="simple", version="one")
        with pytest.raises(grpc.RpcError, match="version should be an integral value > 0"):
            ready(request.SerializeToString(), timeout=10)
