"""Section 9.5 of the compliance checklist: generate and generate_stream, by a plain HTTP client."""

import http.client
import json
import socket
import threading
import time

import pytest

from tests.conformance.checklist_models import write_echo
from tests.conformance.repeat_model import inflight, write_repeat

pytestmark = pytest.mark.conformance
_TEXT = """
backend: "identity" max_batch_size: 4
input { name: "PROMPT" data_type: TYPE_STRING dims: [1] }
output { name: "TEXT" data_type: TYPE_STRING dims: [1] }
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_repeat(path)
    (path / "text" / "1").mkdir(parents=True)
    (path / "text" / "config.pbtxt").write_text(_TEXT)
    write_echo(path, "floats", more="")
    return path


@pytest.fixture(scope="module")
def options():
    return ("--load-model=*", "--http-max-input-size=100000")


def ask(server, model, body, verb="generate", headers=None):
    """Status, content type and body."""
    connection = http.client.HTTPConnection(server.http, timeout=20)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"/v2/models/{model}/{verb}", data, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def events(body: bytes):
    lines = body.decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def repeat(values, delays=None, **more):
    return {"IN": values, "DELAY": delays or [0] * len(values), "WAIT": 0, **more}


def test_check_090_one_answer_is_a_flat_object(server):
    status, kind, body = ask(server, "text", {"PROMPT": "hello world", "STREAM": False})
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {"model_name": "text", "model_version": "1", "TEXT": "hello world"}
    assert ask(server, "text/versions/1", {"PROMPT": "x"})[0] == 200


@pytest.mark.parametrize(
    ("given", "expected"), [({"id": "7"}, "7"), ({"id": ""}, None), ({}, None)]
)
def test_check_091_the_id_comes_back(server, given, expected):
    _, _, body = ask(server, "text", {"PROMPT": "x", **given})
    assert json.loads(body).get("id") == expected


def test_check_092_events_come_when_they_are_made(server):
    connection = http.client.HTTPConnection(server.http, timeout=20)
    connection.request(
        "POST", "/v2/models/repeat/generate_stream", json.dumps(repeat([1, 2], [0, 1500]))
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    first = answer.readline(), answer.readline()
    came = time.monotonic()
    assert first == (b'data: {"model_name":"repeat","model_version":"1","OUT":1,"IDX":0}\n', b"\n")
    assert b'"OUT":2' in answer.readline()
    assert time.monotonic() - came > 0.5  # and was not held back for the second
    answer.read()
    connection.close()


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_check_093_errors_before_inference_are_plain_json(server, verb):
    status, kind, body = ask(server, "repeat", {}, verb)
    assert (status, kind) == (400, "application/json")
    assert "expected 3 inputs but got 0" in json.loads(body)["error"]


def test_check_094_the_first_bad_key_is_reported(server):
    _, _, body = ask(server, "text", {"PROMPT": 123})
    assert "attempt to access JSON non-string as string" in json.loads(body)["error"]
    _, _, body = ask(server, "text", {"OTHER": {}, "PROMPT": 123})
    assert "parameter 'OTHER' has invalid type" in json.loads(body)["error"]


def test_check_095_an_input_given_twice(server):
    status, _, body = ask(server, "text", b'{"PROMPT":"a","PROMPT":"b"}')
    assert (status, json.loads(body)["error"]) == (400, "input 'PROMPT' already exists in request")


def test_check_096_nested_parameters(server):
    nested = {"parameters": {"PROMPT": "in"}}
    assert json.loads(ask(server, "text", nested)[2])["TEXT"] == "in"
    for body, text in (
        ({"parameters": 1}, "Expected JSON object for keyword: 'parameters'"),
        (
            {"parameters": {"nested": {}}},
            "Converting keyword: 'parameters': parameter 'nested' has invalid type.",
        ),
        ({"PARAMS": {}}, "parameter 'PARAMS' has invalid type"),
    ):
        status, _, answer = ask(server, "text", {"PROMPT": "x", **body})
        assert status == 400
        assert json.loads(answer)["error"].startswith(text)


def test_check_097_a_first_failure_decides_the_status(server):
    status, kind, body = ask(server, "repeat", repeat([1, 2], [0]), "generate_stream")
    assert (status, kind) == (400, "text/event-stream; charset=utf-8")
    assert events(body) == [{"error": "expected IN and DELAY shape to match"}]


def test_check_098_other_than_one_response(server):
    for values in ([], [1, 2]):
        _, _, body = ask(server, "repeat", repeat(values))
        assert "generate expects model to produce exactly 1 response" in json.loads(body)["error"]
    assert ask(server, "repeat", repeat([]), "generate_stream")[::2] == (200, b"")
    assert json.loads(ask(server, "repeat", repeat([5]))[2])["OUT"] == 5


@pytest.mark.parametrize(("given", "expected"), [([], []), ([1.5], 1.5), ([1.5, 2.0], [1.5, 2.0])])
def test_check_099_an_output_without_elements_is_an_empty_list(server, given, expected):
    _, _, body = ask(server, "floats", {"INPUT0": given})
    assert json.loads(body)["OUTPUT0"] == expected
    [event] = events(ask(server, "floats", {"INPUT0": given}, "generate_stream")[2])
    assert event["OUTPUT0"] == expected


def test_check_100_many_streams_and_clients_that_leave(server):
    found: list[list[int]] = []

    def stream() -> None:
        body = ask(server, "repeat", repeat([1, 2, 3], [5, 5, 5]), "generate_stream")[2]
        found.append([event["OUT"] for event in events(body)])

    threads = [threading.Thread(target=stream) for _ in range(100)]
    for thread in threads:
        thread.start()
    _leave_in_the_middle(server)
    for thread in threads:
        thread.join()
    assert found == [[1, 2, 3]] * 100
    assert server.ready()
    server.wait_for(lambda: inflight(server) == 0, "the end of the abandoned request")


def _leave_in_the_middle(server) -> None:
    host, port = server.http.split(":")
    body = json.dumps(repeat(list(range(500)), [20] * 500)).encode()
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /v2/models/repeat/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_other_encodings_are_refused(server):
    status, _, body = ask(server, "text", {"PROMPT": "x"}, headers={"Content-Encoding": "gzip"})
    assert status == 400
    assert (
        json.loads(body)["error"] == "Unsupported content-encoding, only 'identity' is supported."
    )


def test_bodies_are_bounded(server):
    status, _, body = ask(server, "text", {"PROMPT": "x" * 100_001})
    assert status == 400
    assert "exceeds the maximum allowed input size" in json.loads(body)["error"]


def test_an_old_client_gets_its_stream_until_the_connection_closes(server):
    host, port = server.http.split(":")
    body = json.dumps(repeat([1])).encode()
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(
            b"POST /v2/models/repeat/generate_stream HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert [event["OUT"] for event in events(content)] == [1]
