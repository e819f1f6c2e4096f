"""Routes, statuses and bodies as a plain HTTP client sees them."""

import gzip
import http.client
import json

import numpy as np
import pytest

from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.spec.messages import InferResponse
from tests.inference_runtime.frontends.serving import serving

TWO = [
    {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "data": list(range(16))},
    {"name": "INPUT1", "shape": [1, 16], "datatype": "INT32", "data": [1] * 16},
]
INFER = "/v2/models/simple/infer"


class Plain:
    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=20)

    def ask(self, method, path, body=None, **headers):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        names = {key.replace("_", "-"): value for key, value in headers.items()}
        self.connection.request(method, path, body, names)
        answer = self.connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())

    def error(self, method, path, body=None, **headers):
        status, content, found = self.ask(method, path, body, **headers)
        assert found["Content-Type"] == "application/json"
        document = json.loads(content)
        assert list(document) == ["error"]
        return status, document["error"]


@pytest.fixture
def plain(served):
    plain = Plain(served.http_address)
    yield plain
    plain.connection.close()


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/simple/ready"])
def test_health_is_a_status_without_a_body(plain, path):
    status, body, _ = plain.ask("GET", path)
    assert (status, body) == (200, b"")


def test_an_unready_server_says_400(plain, served):
    served.core.is_live = served.core.is_ready = False
    assert plain.ask("GET", "/v2/health/live")[:2] == (400, b"")
    assert plain.ask("GET", "/v2/health/ready")[:2] == (400, b"")


@pytest.mark.parametrize("path", ["/v2/models/nope/ready", "/v2/models/simple/versions/9/ready"])
def test_a_model_that_is_not_ready_is_400_whatever_the_reason(plain, path):
    assert plain.error("GET", path) == (400, "Model version not ready")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v2/", "/v2/notapi", "/notapi/v2", "/v2/models", "/v2/models/", "/v2/models/simple/foo",
        "/v2/models/simple/versions/abc", "/v2/models/simple/versions/1/trace/setting", "/metrics",
        "/v2/models/simple/infer/", "/v2/models/a%2Fb/c", "//v2", "/v2/models/simple/versions/",
        "/v2/switchyard", "/v2/switchyard/traffic/", "/V2",
    ],
)  # fmt: skip
def test_unknown_paths_are_not_found(plain, path):
    assert plain.error("GET", path) == (404, "Not Found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/health/live"),
        ("GET", INFER),
        ("DELETE", "/v2"),
        ("GET", "/v2/repository/index"),
        ("PUT", "/v2/models/simple"),
        ("OPTIONS", "/v2"),
        ("POST", "/v2/switchyard/statistics"),
    ],
)
def test_wrong_methods_are_405(plain, method, path):
    assert plain.error(method, path) == (405, "Method Not Allowed")


def test_every_method_on_every_route_leaves_the_server_alive(plain):
    paths = ["/v2", "/v2/models/simple", INFER, "/v2/repository/index", "/v2/logging", "/x"]
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        for path in paths:
            status, _, _ = plain.ask(method, path)
            assert 200 <= status < 600
    assert plain.ask("GET", "/v2/health/live")[0] == 200


def test_names_in_paths_are_percent_decoded(plain):
    assert plain.error("GET", "/v2/models/n%20%C3%A9") == (
        404,
        "Request for unknown model: 'n é' is not found",
    )


def test_a_model_called_stats_has_no_metadata(plain):
    status, body, _ = plain.ask("GET", "/v2/models/stats")
    assert (status, list(json.loads(body))) == (200, ["model_stats"])


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        (
            "POST",
            "/v2/systemsharedmemory/region/r/register",
            501,
            "Client shared memory is disabled.",
        ),
        ("POST", "/v2/cudasharedmemory/unregister", 501, "Client shared memory is disabled."),
        (
            "GET",
            "/v2/systemsharedmemory/region/r/status",
            404,
            "Unable to find system shared memory",
        ),
        ("GET", "/v2/cudasharedmemory/region/r/status", 404, "Unable to find cuda shared memory"),
        ("POST", "/v2/repository/r/models/m/load", 501, "'repository_name' specification is not"),
        ("POST", "/v2/repository/r/models/m/unload", 501, "'repository_name' specification is not"),
    ],
)
def test_what_is_not_built_says_so(plain, method, path, status, text):
    found, said = plain.error(method, path)
    assert found == status
    assert text in said


def test_no_region_is_listed(plain):
    assert plain.ask("GET", "/v2/systemsharedmemory/status")[:2] == (200, b"[]")


def test_the_index_may_be_narrowed(plain):
    _, body, _ = plain.ask("POST", "/v2/repository/index", {"ready": True})
    assert {"name": "never_loaded"} not in json.loads(body)
    assert plain.ask("POST", "/v2/repository/anything/index")[0] == 200
    deep = b'{"ready":' + b"[" * 250_000 + b"]" * 250_000 + b"}"
    assert plain.error("POST", "/v2/repository/index", deep) == (
        400,
        "Invalid value for 'ready': expected a boolean",
    )


def infer_json(plain, **document):
    status, body, headers = plain.ask("POST", INFER, {"inputs": TWO, **document})
    assert status == 200, body
    return body, headers


def test_json_in_json_out(plain):
    body, headers = infer_json(plain)
    assert json.loads(body) == {
        "model_name": "simple",
        "model_version": "1",
        "outputs": [
            {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 16], "data": list(range(1, 17))},
            {"name": "OUTPUT1", "datatype": "INT32", "shape": [1, 16], "data": list(range(-1, 15))},
        ],
    }
    assert headers["Content-Type"] == "application/json"
    assert "Inference-Header-Content-Length" not in headers


def test_the_answer_names_version_and_arm(plain, served):
    _, headers = infer_json(plain)
    assert headers["x-model-version"] == "1"
    assert "x-rollout-arm" not in headers
    served.core.arm = "canary"
    for outputs in ([], [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]):
        _, headers = infer_json(plain, outputs=outputs)
        assert (headers["x-model-version"], headers["x-rollout-arm"]) == ("1", "canary")


def test_a_failed_request_names_version_and_arm_too(plain, served):
    served.core.arm = "canary"
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
    status, _, headers = plain.ask("POST", "/v2/models/failing/infer", body)
    assert (status, headers["x-model-version"], headers["x-rollout-arm"]) == (400, "1", "canary")


def test_one_output_binary_and_one_json(plain):
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]
    body, headers = infer_json(plain, outputs=outputs)
    assert headers["Content-Type"] == "application/octet-stream"
    size = int(headers["Inference-Header-Content-Length"])
    first, second = json.loads(body[:size])["outputs"]
    assert first["parameters"] == {"binary_data_size": 64}
    assert second["data"] == list(range(-1, 15))
    assert np.frombuffer(body[size:], np.int32).tolist() == list(range(1, 17))


def test_the_default_of_the_request_rules_only_unlisted_outputs(plain):
    _, headers = infer_json(plain, parameters={"binary_data_output": True})
    assert "Inference-Header-Content-Length" in headers
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": False}}, {"name": "OUTPUT1"}]
    _, headers = infer_json(plain, parameters={"binary_data_output": True}, outputs=outputs)
    assert "Inference-Header-Content-Length" not in headers


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("abc", "Unable to parse Inference-Header-Content-Length, got: abc"),
        ("99999999999", "value is out of range [ "),
        ("-1", "inference header size should be in range (0, "),
        ("1000000", "inference header size should be in range (0, "),
        ("+5", "Unable to parse Inference-Header-Content-Length"),
    ],
)
def test_a_wrong_json_size_is_refused(plain, size, text):
    status, said = plain.error("POST", INFER, {"inputs": TWO}, Inference_Header_Content_Length=size)
    assert status == 400
    assert text in said


@pytest.mark.parametrize("declared", [63, 65])
def test_binary_sizes_must_match(plain, declared):
    first = {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32"}
    head = json.dumps(
        {"inputs": [{**first, "parameters": {"binary_data_size": declared}}]}
    ).encode()
    status, said = plain.error(
        "POST", INFER, head + bytes(64), Inference_Header_Content_Length=str(len(head))
    )
    assert status == 400
    assert said.startswith("unexpected ")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "failed to parse the request JSON buffer"),
        (b"", "failed to parse the request JSON buffer"),
        ({}, "Unable to parse 'inputs'"),
        (
            {"inputs": [{**TWO[0], "data": list(range(15))}]},
            "Failed to parse 'data' field: shape does",
        ),
    ],
)
def test_what_clients_get_wrong_is_400(plain, body, text):
    status, said = plain.error("POST", INFER, body)
    assert status == 400
    assert text in said


def test_that_the_model_is_unknown_goes_before_everything(plain):
    assert plain.error("POST", "/v2/models/nope/infer", b"{")[0] == 404
    assert plain.error("POST", "/v2/models/nope/infer", b"", Content_Encoding="gzip")[0] == 404


def test_an_unknown_encoding_is_501_and_tells_the_known_ones(plain):
    status, body, headers = plain.ask("POST", INFER, b"x", Content_Encoding="br")
    assert (status, body) == (501, b'{"error":"Unsupported compression type"}')
    assert headers["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_identity_is_no_encoding(plain, encoding):
    assert plain.ask("POST", INFER, {"inputs": TWO}, Content_Encoding=encoding)[0] == 200


def test_what_is_not_gzip_is_refused(plain):
    status, said = plain.error("POST", INFER, b"plain", Content_Encoding="gzip")
    assert status == 400
    assert "failed to decompress the request body" in said


def test_sizes_of_a_compressed_body_are_those_behind_it(plain):
    entries = [
        {key: value for key, value in entry.items() if key != "data"}
        | {"parameters": {"binary_data_size": 64}}
        for entry in TWO
    ]
    head = json.dumps({"inputs": entries}).encode()
    body = gzip.compress(head + bytes(128))
    assert len(body) < len(head)
    for _ in range(2):
        status, _, _ = plain.ask(
            "POST", INFER, body, Content_Encoding="gzip",
            Inference_Header_Content_Length=str(len(head)),
        )  # fmt: skip
        assert status == 200


def test_the_traffic_unit_comes_from_the_header_the_core_names(plain, served):
    served.core.unit = "x-user"
    plain.ask("POST", INFER, {"inputs": TWO}, X_User="ann")
    assert served.core.seen[-1].traffic_unit == "ann"
    plain.ask("POST", INFER, {"inputs": TWO})
    assert served.core.seen[-1].traffic_unit == ""


def test_traffic_tables_go_in_and_out(plain):
    table = {"model": "m", "generation": 7}
    path = "/v2/switchyard/traffic/m"
    assert plain.error("GET", path)[0] == 404
    assert json.loads(plain.ask("PUT", path, table)[1]) == table
    assert json.loads(plain.ask("GET", path)[1]) == table
    assert json.loads(plain.ask("GET", "/v2/switchyard/traffic")[1]) == {"tables": [table]}
    assert plain.error("PUT", path, {**table, "generation": 6})[0] == 409
    assert plain.error("DELETE", path + "?generation=6")[0] == 409
    assert plain.ask("DELETE", path + "?generation=7")[0] == 200
    assert plain.error("DELETE", path + "?generation=x")[0] == 400
    assert json.loads(plain.ask("GET", "/v2/switchyard/statistics")[1])["models"] == []


def test_slots_go_in_and_out(plain):
    pools = [{"name": "R", "device": "global", "capacity": 2}]
    path = "/v2/switchyard/slots"
    assert json.loads(plain.ask("GET", path)[1]) == {"pools": []}
    assert json.loads(plain.ask("PUT", path, {"pools": pools})[1]) == {"pools": pools}
    assert json.loads(plain.ask("GET", path)[1]) == {"pools": pools}


def three(elements=2):
    """A request with three binary tensors, as a body and the size of its JSON."""
    entries = [
        {
            "name": f"INPUT{number}",
            "shape": [1, elements],
            "datatype": "FP32",
            "parameters": {"binary_data_size": 4 * elements},
        }
        for number in range(3)
    ]
    document = {"parameters": {"binary_data_output": True}, "inputs": entries}
    head = json.dumps(document).encode()
    return head + np.arange(3 * elements, dtype=np.float32).tobytes(), str(len(head))


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("elements", [0, 2, 40_000])
def test_any_number_of_tensors_in_any_size_comes_back(served, connection, elements):
    for _ in range(3):
        plain = Plain(served.http_address)
        body, size = three(elements)
        for _ in range(1 if connection == "close" else 3):
            status, answer, headers = plain.ask(
                "POST", "/v2/models/three/infer", body, Connection=connection,
                Inference_Header_Content_Length=size,
            )  # fmt: skip
            assert status == 200
            start = int(headers.get("Inference-Header-Content-Length", len(answer)))
            assert answer[start:] == body[int(size) :]
        plain.connection.close()


def test_an_answer_that_can_not_be_written_ends_its_own_connection_only(served, plain):
    body, size = three()
    served.core.spoil = lambda answer: InferResponse(answer.head, answer.data[:1])
    with pytest.raises(http.client.RemoteDisconnected):
        plain.ask("POST", "/v2/models/three/infer", body, Inference_Header_Content_Length=size)
    served.core.spoil = None
    plain.connection.close()
    answer = plain.ask("POST", "/v2/models/three/infer", body, Inference_Header_Content_Length=size)
    assert answer[0] == 200


def test_tensors_of_a_size_they_did_not_have_before_are_announced_as_they_are(served, plain):
    body, size = three()

    def ask():
        _, answer, headers = plain.ask(
            "POST", "/v2/models/three/infer", body, Inference_Header_Content_Length=size
        )
        return answer[int(headers["Inference-Header-Content-Length"]) :]

    assert len(ask()) == 24
    served.core.spoil = lambda answer: InferResponse(answer.head, [b"12", *answer.data[1:]])
    assert len(ask()) == 18


@pytest.fixture
def small():
    with serving(http=HttpOptions(max_input_bytes=2000, max_body_bytes=10_000)) as served:
        plain = Plain(served.http_address)
        yield plain
        plain.connection.close()


RAISE = "Use --http-max-input-size to increase the limit."


def test_json_over_the_limit_is_refused_and_the_connection_lives(small):
    body = json.dumps({"inputs": TWO}).encode()
    status, said = small.error("POST", INFER, body + b" " * 2000)
    size = len(body) + 2000
    assert (status, said) == (
        400,
        f"request JSON size of {size} bytes exceeds the maximum allowed input size of 2000 bytes. {RAISE}",
    )
    assert small.ask("POST", INFER, body)[0] == 200
    status, said = small.error("POST", "/v2/repository/index", b" " * 2001)
    assert said.startswith("request JSON size of 2001 bytes exceeds")


def test_raw_bodies_have_the_limit_too(small):
    path = "/v2/models/ident/infer"
    status, said = small.error("POST", path, bytes(2004), Inference_Header_Content_Length="0")
    assert status == 400
    assert said == (
        "Raw input has a byte_size (2004 bytes) that exceeds the maximum allowed value of 2000 bytes. "
        + RAISE
    )
    assert small.ask("POST", path, bytes(2000), Inference_Header_Content_Length="0")[0] == 200


def test_binary_tensors_are_not_part_of_the_limit_on_json(small):
    size = 8000
    entry = {"name": "INPUT0", "shape": [1, size // 4], "datatype": "FP32"}
    head = json.dumps({"inputs": [{**entry, "parameters": {"binary_data_size": size}}]}).encode()
    status, _, _ = small.ask(
        "POST", "/v2/models/ident/infer", head + bytes(size),
        Inference_Header_Content_Length=str(len(head)),
    )  # fmt: skip
    assert status == 200


@pytest.mark.parametrize(
    "headers", [{"Inference_Header_Content_Length": "100"}, {"Content_Encoding": "gzip"}]
)
def test_a_body_that_is_too_large_in_all_is_not_blamed_on_its_json(small, headers):
    status, said = small.error("POST", "/v2/models/ident/infer", bytes(10_001), **headers)
    assert status == 400
    assert said == "request body of 10001 bytes exceeds the 10000 bytes that one may have"
    status, said = small.error("POST", "/v2/models/nobody/infer", bytes(10_001), **headers)
    assert (status, said) == (404, "Request for unknown model: 'nobody' is not found")


def test_a_decompression_bomb_stops_at_the_limit(small):
    bomb = gzip.compress(bytes(1 << 20))
    status, said = small.error("POST", INFER, bomb, Content_Encoding="gzip")
    assert status == 400
    assert (
        said == f"Decompressed data size exceeds the maximum allowed value of 2000 bytes. {RAISE}"
    )


def broken(*_):
    raise LookupError("a bug of ours")


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [("POST", "/v2/repository/index", "repository_index"), ("GET", "/v2", "server_metadata")],
)
def test_a_call_that_breaks_is_answered_all_the_same(
    plain, served, monkeypatch, method, path, call
):
    monkeypatch.setattr(served.core, call, broken)
    assert plain.error(method, path) == (500, "LookupError: a bug of ours")
    assert plain.ask("GET", "/v2/health/live")[0] == 200
