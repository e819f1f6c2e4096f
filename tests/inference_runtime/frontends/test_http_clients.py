"""The stock HTTP clients against our front end."""

import http.client
import subprocess
from contextlib import closing

import numpy as np
import pytest
import tritonclient.http as sync_client
import tritonclient.http.aio as aio_client
from tritonclient.utils import InferenceServerException

from inference_runtime.protocol import byte_strings, compression
from inference_runtime.spec.messages import InferResponse, ResponseHead, TensorHead
from tests.inference_runtime.frontends.serving import receive_all


@pytest.fixture
def client(served):
    client = sync_client.InferenceServerClient(served.http_address)
    yield client
    client.close()


A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.full((1, 16), 3, np.int32)


def inputs(module=sync_client, binary=True, **arrays):
    kinds = {"int32": "INT32", "float32": "FP32", "object": "BYTES"}
    made = []
    for name, array in (arrays or {"INPUT0": A, "INPUT1": B}).items():
        made.append(module.InferInput(name, list(array.shape), kinds[array.dtype.name]))
        made[-1].set_data_from_numpy(array, binary_data=binary)
    return made


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("request_id", ["", "42"])
def test_infers_in_every_form(client, binary_in, binary_out, request_id):
    outputs = None
    if binary_out is not None:
        outputs = [
            sync_client.InferRequestedOutput(name, binary_data=binary_out)
            for name in ("OUTPUT0", "OUTPUT1")
        ]
    for _ in range(3):  # the first time is read, the others are remembered
        answer = client.infer(
            "simple", inputs(binary=binary_in), outputs=outputs, request_id=request_id
        )
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), A + B)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A - B)
        response = answer.get_response()
        assert response["model_version"] == "1"
        assert response.get("id", "") == request_id
        assert ("id" in response) is bool(request_id)


def test_gives_only_the_outputs_asked_for(client):
    asked = [sync_client.InferRequestedOutput("OUTPUT1")]
    answer = client.infer("simple", inputs(), outputs=asked)
    assert answer.as_numpy("OUTPUT0") is None
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A - B)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [16, 100_000])
def test_compresses_both_ways(client, algorithm, size):
    array = np.random.default_rng(0).random((1, size), np.float32)
    for _ in range(2):
        answer = client.infer(
            "ident",
            inputs(INPUT0=array),
            request_compression_algorithm=algorithm,
            response_compression_algorithm=algorithm,
        )
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


def no_memory(*_):
    raise MemoryError


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("size", [16, 100_000])
def test_what_can_not_be_compressed_is_sent_as_it_is(client, monkeypatch, size, binary):
    monkeypatch.setattr(compression, "deflate", no_memory)
    array = np.full((1, size), 3, np.float32)
    asked = [sync_client.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    for _ in range(2):
        answer = client.infer(
            "ident", inputs(INPUT0=array), outputs=asked, response_compression_algorithm="gzip"
        )
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


def test_an_event_may_be_as_large_as_it_likes(served, monkeypatch):
    """It came at once and whole: its client has not read too slowly."""
    text = b"x" * (80 << 20)
    head = ResponseHead("ident_str", "1", (TensorHead("OUTPUT0", "BYTES", (1,)),))

    def infer(request):
        request.partial(request, InferResponse(head, [byte_strings.pack([text])]))
        request.done(request, InferResponse(ResponseHead("ident_str", "1", (), empty=True), []))

    monkeypatch.setattr(served.core, "infer", infer)
    with closing(http.client.HTTPConnection(served.http_address, timeout=60)) as connection:
        path = "/v2/models/ident_str/generate_stream"
        connection.request("POST", path, b'{"INPUT0":"a"}')
        body = connection.getresponse().read()
    assert body.endswith(b'xx"}\n\n')
    assert len(body) > len(text)


@pytest.mark.parametrize("binary", [True, False])
def test_strings_go_through(client, binary):
    array = np.array([["grüß"], [""]], dtype=object)
    asked = [sync_client.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    answer = client.infer("ident_str", inputs(binary=binary, INPUT0=array), outputs=asked)
    found = [x if isinstance(x, str) else x.decode() for x in answer.as_numpy("OUTPUT0").ravel()]
    assert found == ["grüß", ""]


def test_any_bytes_go_through_in_binary_form(client):
    array = np.array([[b"\x00\xff"]], dtype=object)
    answer = client.infer("ident_str", inputs(INPUT0=array))
    assert answer.as_numpy("OUTPUT0").tolist() == [[b"\x00\xff"]]


@pytest.mark.parametrize("binary", [True, False])
def test_nan_and_infinities_go_through(client, binary):
    array = np.array([[np.nan, np.inf, -np.inf, 1.5]], np.float32)
    asked = [sync_client.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    answer = client.infer("ident", inputs(INPUT0=array), outputs=asked)
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


@pytest.mark.parametrize("binary", [True, False])
def test_tensors_without_elements_go_through(client, binary):
    array = np.zeros((1, 0), np.float32)
    asked = [sync_client.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    for _ in range(2):
        answer = client.infer("ident", inputs(binary=binary, INPUT0=array), outputs=asked)
        assert answer.as_numpy("OUTPUT0").shape == (1, 0)


def test_classes_come_back_as_strings(client):
    asked = [sync_client.InferRequestedOutput("OUTPUT0", class_count=2)]
    answer = client.infer("simple", inputs(), outputs=asked)
    assert answer.as_numpy("OUTPUT0").tolist() == [[b"18:15", b"17:14"]]


def test_large_json_goes_through(client):
    array = np.arange(200_000, dtype=np.float32).reshape(1, -1)
    asked = [sync_client.InferRequestedOutput("OUTPUT0", binary_data=False)]
    answer = client.infer(
        "ident", inputs(binary=False, INPUT0=array), outputs=asked, request_id="7"
    )
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)
    assert answer.get_response()["id"] == "7"
    wrong = inputs(binary=False, INPUT0=array)
    wrong[0].set_shape([1, 200_001])
    with pytest.raises(InferenceServerException, match="shape does not match true shape"):
        client.infer("ident", wrong)
    with pytest.raises(InferenceServerException, match="unknown model: 'nope'"):
        client.infer("nope", wrong)


def test_large_tensors_go_through(client):
    array = np.random.default_rng(0).random((1, 16 << 20), np.float32)  # 64 MiB
    answer = client.infer("ident", inputs(INPUT0=array))
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


def test_parameters_reach_the_core(client, served):
    client.infer(
        "simple",
        inputs(),
        priority=2,
        timeout=500,
        sequence_id=7,
        sequence_start=True,
        parameters={"text": "x", "number": 1.5, "flag": True, "whole": 3},
    )
    head = served.core.seen[-1].head
    assert (head.priority, head.timeout_us, head.sequence_id, head.sequence_start) == (
        2,
        500,
        7,
        True,
    )
    assert head.parameters == {"text": "x", "number": 1.5, "flag": True, "whole": 3}


def test_errors_carry_status_and_text(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("nope", inputs())
    assert caught.value.status() == "404"
    assert caught.value.message() == "Request for unknown model: 'nope' is not found"
    with pytest.raises(InferenceServerException, match="the model does not like it"):
        client.infer("failing", inputs(INPUT0=np.zeros((1, 1), np.float32)))


def test_tells_about_server_and_models(client, served):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert client.is_model_ready("simple", "1")
    assert not client.is_model_ready("simple", "9")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata()["name"] == "triton"
    assert client.get_model_metadata("simple")["inputs"][0] == {
        "name": "INPUT0",
        "datatype": "INT32",
        "shape": [-1, 16],
    }
    assert client.get_model_config("simple")["max_batch_size"] == 8
    assert client.get_inference_statistics()["model_stats"][0]["inference_count"] == 3
    assert {"name": "never_loaded"} in client.get_model_repository_index()
    served.core.is_ready = False
    assert not client.is_server_ready()


def test_loads_and_unloads(client, served):
    client.load_model("m", config="{}", files={"file:1/model.onnx": b"\x01"})
    client.load_model("n")
    client.unload_model("m", unload_dependents=True)
    assert served.core.loaded == [("m", {"config": "{}", "file:1/model.onnx": b"\x01"}), ("n", {})]
    assert served.core.unloaded == [("m", True)]
    with pytest.raises(InferenceServerException, match="failed to load 'broken'"):
        client.load_model("broken")


def test_concurrent_requests_of_one_client_get_their_own_answers(served):
    client = sync_client.InferenceServerClient(served.http_address, concurrency=8)
    sent = [np.full((1, 16), number, np.int32) for number in range(200)]
    pending = [client.async_infer("simple", inputs(INPUT0=a, INPUT1=B)) for a in sent]
    for array, handle in zip(sent, pending, strict=True):
        np.testing.assert_array_equal(handle.get_result().as_numpy("OUTPUT0"), array + B)
    client.close()


async def test_the_asyncio_client_passes_the_same_calls(served):
    async with aio_client.InferenceServerClient(served.http_address) as client:
        assert await client.is_server_live()
        assert await client.is_model_ready("simple")
        for _ in range(2):
            answer = await client.infer("simple", inputs(aio_client), request_id="1")
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), A + B)
        answer = await client.infer("simple", inputs(aio_client, binary=False))
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A - B)
        with pytest.raises(InferenceServerException, match="unknown model: 'nope'"):
            await client.infer("nope", inputs(aio_client))


def curl(*arguments):
    run = subprocess.run(
        ["curl", "--silent", "--include", "--max-time", "20", *arguments],
        capture_output=True,
        check=True,
    )
    return run.stdout


def test_curl_reads_and_uploads_in_chunks(served):
    base = f"http://{served.http_address}"
    assert curl(base + "/v2/health/ready").startswith(b"HTTP/1.1 200 OK\r\n")
    answer = curl(
        "-H", "Transfer-Encoding: chunked",
        "-H", "Inference-Header-Content-Length: 0",
        "--data-binary", "427",
        base + "/v2/models/ident_str/infer",
    )  # fmt: skip
    assert answer.endswith(b"\x03\x00\x00\x00427")


def test_curl_waits_for_continue_with_a_large_body(served, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(bytes(4 << 20))
    answer = curl(
        "-H", "Inference-Header-Content-Length: 0",
        "-H", "Expect: 100-continue",
        "--data-binary", f"@{body}",
        f"http://{served.http_address}/v2/models/ident/infer",
    )  # fmt: skip
    assert b"HTTP/1.1 100 Continue" in answer
    assert answer.endswith(bytes(4 << 20))


def test_curl_is_served_where_it_offers_http2(served):
    base = f"http://{served.http_address}"
    assert curl("--http2", base + "/v2/health/ready").startswith(b"HTTP/1.1 200 OK\r\n")
    answer = curl(
        "--http2",
        "-H", "Inference-Header-Content-Length: 0",
        "--data-binary", "427",
        base + "/v2/models/ident_str/infer",
    )  # fmt: skip
    assert answer.endswith(b"\x03\x00\x00\x00427")


def test_curl_reads_metrics_on_their_own_port(served):
    answer = curl(f"http://127.0.0.1:{served.metrics.port}/metrics")
    assert b"Content-Type: text/plain; charset=utf-8\r\n" in answer
    assert answer.endswith(b'nv_inference_count{model="simple",version="1"} 3\n')


def infer_text(text: bytes, data: bytes = bytes(16)) -> bytes:
    head = (
        b"POST /v2/models/ident/infer HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (len(text), len(text) + len(data)) + text + data


def ask_raw(served, text: bytes) -> bytes:
    with closing(served.connect_http()) as sock:
        sock.sendall(infer_text(text))
        return receive_all(sock)


def test_what_is_remembered_of_a_request_with_an_id_answers_nothing_else(served):
    inputs_text = (
        b'"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"FP32",'
        b'"parameters":{"binary_data_size":16}}]}'
    )
    for id_ in (b"1", b"2"):
        answer = ask_raw(served, b'{"id":"%b",' % id_ + inputs_text)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert b'"id":"%b"' % id_ in answer
    assert b'"id"' not in ask_raw(served, b"{" + inputs_text)
    # The same without its beginning is no JSON, whatever was remembered.
    assert ask_raw(served, inputs_text).startswith(b"HTTP/1.1 400")
    # Of two ids the first counts, and the second is not kept for those without one.
    twice = b'"\\u0069d":"7",' + inputs_text
    assert b'"id":"9"' in ask_raw(served, b'{"id":"9",' + twice)
    assert b'"id":"7"' in ask_raw(served, b"{" + twice)
    assert b'"id":"8"' in ask_raw(served, b'{"id":"8",' + twice)
