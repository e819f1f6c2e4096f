"""Section 9.2 of the compliance checklist: compressed and chunked bodies."""

import gzip
import http.client
import json
import socket
import zlib

import numpy as np
import pytest
import tritonclient.http as httpclient

from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_sub, identity, write_model

pytestmark = pytest.mark.conformance
PATH = "/v2/models/ident/infer"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "ident", identity(), config="max_batch_size: 8")
    return path


def document(elements: int) -> bytes:
    entry = {"name": "INPUT0", "shape": [1, elements], "datatype": "FP32", "data": [0] * elements}
    return json.dumps({"inputs": [entry]}).encode()


def post(server, body, **headers):
    connection = http.client.HTTPConnection(server.http, timeout=30)
    try:
        found = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", PATH, body, found)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_check_043_a_body_that_inflates_beyond_the_limit(repository, tmp_path, compress):
    options = ("--http-max-input-size=100000", "--load-model=ident")
    with runtime(repository, tmp_path / "log", *options) as server:
        bomb = compress(document(10) + b" " * 10_000_000)
        status, body, _ = post(server, bomb, Content_Encoding="gzip")
        assert status == 400
        assert b"Decompressed data size exceeds the maximum allowed value of 100000 bytes" in body
        assert b"Use --http-max-input-size to increase the limit." in body
        status, body, _ = post(server, compress(document(10)), Content_Encoding="gzip")
        assert status == 200
        status, body, _ = post(server, compress(document(10))[:-5], Content_Encoding="deflate")
        assert status == 400
        assert server.ready()


def chunked(server, count: int) -> bytes:
    """The answer to a body in so many chunks of one byte, the last few of them blanks."""
    body = document(4)
    body += b" " * (count - len(body))
    head = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with socket.create_connection(server.http.split(":"), timeout=30) as sock:
        sock.sendall(head + chunks + b"0\r\n\r\n")
        sock.shutdown(socket.SHUT_WR) if count > 65536 else None
        answer = b""
        while b"}" not in answer:
            piece = sock.recv(65536)
            if not piece:
                break
            answer += piece
    return answer


def test_check_044_at_most_65536_chunks(server):
    assert chunked(server, 65536).startswith(b"HTTP/1.1 200")
    answer = chunked(server, 65537)
    assert answer.startswith(b"HTTP/1.1 400")
    text = b"Chunked request body exceeds maximum of 65536 non-empty chunks."
    assert text in answer
    assert b"\r\nConnection: close\r\n" in answer
    assert server.ready()


@pytest.mark.parametrize("request_algorithm", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_algorithm", [None, "gzip", "deflate"])
@pytest.mark.parametrize("rows", [1, 8])
def test_check_045_the_clients_own_compression(server, request_algorithm, response_algorithm, rows):
    data = np.arange(16 * rows, dtype=np.int32).reshape(rows, 16)
    with server.http_client() as client:
        for binary in (True, False):
            inputs = [
                httpclient.InferInput(name, [rows, 16], "INT32") for name in ("INPUT0", "INPUT1")
            ]
            for tensor in inputs:
                tensor.set_data_from_numpy(data, binary_data=binary)
            result = client.infer(
                "simple",
                inputs,
                request_id="7",
                request_compression_algorithm=request_algorithm,
                response_compression_algorithm=response_algorithm,
            )
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), data * 2)
            assert result.get_response()["id"] == "7"


@pytest.mark.parametrize(
    ("accept", "encoding", "inflate"),
    [
        ("gzip", "gzip", gzip.decompress),
        ("deflate", "deflate", zlib.decompress),
        ("deflate;q=0.5, gzip;q=0.9", "gzip", gzip.decompress),
        ("br, nonsense;q=x, deflate", "deflate", zlib.decompress),
        ("br", None, bytes),
        ("identity, gzip", None, bytes),
    ],
)
def test_check_045_the_answers_encoding_is_the_one_the_client_prefers(
    server, accept, encoding, inflate
):
    status, body, headers = post(server, document(1000), Accept_Encoding=accept)
    assert (status, headers["Content-Encoding"]) == (200, encoding)
    assert int(headers["Content-Length"]) == len(body)
    assert json.loads(inflate(body))["outputs"][0]["shape"] == [1, 1000]


def test_check_045_an_unknown_encoding_is_refused_with_those_that_are_known(server):
    status, body, headers = post(server, document(1), Content_Encoding="br")
    assert (status, json.loads(body)) == (501, {"error": "Unsupported compression type"})
    assert headers["Accept-Encoding"] == "gzip, deflate"
    for harmless in ("", "identity"):
        assert post(server, document(1), Content_Encoding=harmless)[0] == 200
