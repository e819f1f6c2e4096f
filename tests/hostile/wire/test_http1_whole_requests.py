"""Real inferences over HTTP/1.1: a request that came whole, and alone, is answered as one behind another."""

import json
import re
from contextlib import ExitStack, closing

import numpy as np
import pytest

from inference_runtime.frontends.http_infer import InferRoute

PATH = "/v2/models/simple/infer"
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"


def row(value: int) -> bytes:
    return np.full(16, value, np.int32).tobytes()


def document(*, sizes=(64, 64), id_="", name="INPUT1", **more) -> bytes:
    """As tritonclient writes it."""
    inputs = [
        {
            "name": each,
            "shape": [1, 16],
            "datatype": "INT32",
            "parameters": {"binary_data_size": size},
        }
        for each, size in zip(("INPUT0", name), sizes, strict=True)
    ]
    binary = {"parameters": {"binary_data_output": True}}
    head = {"id": id_} if id_ else {}
    return json.dumps({**head, "inputs": inputs, **binary, **more}, separators=(",", ":")).encode()


def post(text: bytes, data: bytes, *lines: str, path=PATH, json_size: int | None = None) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: h",
        f"Inference-Header-Content-Length: {len(text) if json_size is None else json_size}",
        f"Content-Length: {len(text) + len(data)}",
        *lines,
        "",
        "",
    ]
    return "\r\n".join(head).encode() + text + data


def added(first: int, second: int) -> bytes:
    return post(document(), row(first) + row(second))


def answers(sock, count=1) -> list[bytes]:
    """So many, each with its head."""
    found, text = [], b""
    while len(found) < count:
        head, end, body = text.partition(b"\r\n\r\n")
        size = re.search(rb"\nContent-Length: (\d+)", head + end)
        if end and size and len(body) >= int(size[1]):
            found.append(head + end + body[: int(size[1])])
            text = body[int(size[1]) :]
        else:
            more = sock.recv(65536)
            assert more, text
            text += more
    assert not text
    return found


def ask(sock, request: bytes, *, whole: bool) -> bytes:
    """What comes behind another request goes the general way."""
    sock.sendall(request if whole else LIVE + request)
    return answers(sock, 1 if whole else 2)[-1]


USUAL = document()
TENSORS = row(3) + row(4)
VARIANTS = {
    "usual": added(3, 4),
    "other sizes, same total": post(document(sizes=(60, 68)), TENSORS),
    "other sizes, same length of text": post(document(sizes=(68, 60)), TENSORS),
    "a tensor byte too many": post(USUAL, TENSORS + b"\0"),
    "a tensor byte too few": post(USUAL, TENSORS[:-1]),
    "an id": post(document(id_="x"), TENSORS),
    "an input of another name": post(document(name="INPUT2"), TENSORS),
    "one output": post(document(outputs=[{"name": "OUTPUT1"}]), TENSORS),
    "no JSON": post(b"x" * len(USUAL), TENSORS),
    "the JSON's size is wrong": post(USUAL, TENSORS, json_size=len(USUAL) - 1),
    "no such model": post(USUAL, TENSORS, path="/v2/models/simplx/infer"),
    "its version": post(USUAL, TENSORS, path="/v2/models/simple/versions/1/infer"),
    "another header": post(USUAL, TENSORS, "X-User: ann"),
    "an answer that is compressed": post(USUAL, TENSORS, "Accept-Encoding: gzip"),
}


@pytest.fixture
def shortcuts(monkeypatch):
    """What came to `run_whole`, which is left as it is."""
    came: list[bytes] = []
    run_whole = InferRoute.run_whole

    def spy(route, connection, whole, data):
        came.append(bytes(data))
        run_whole(route, connection, whole, data)

    monkeypatch.setattr(InferRoute, "run_whole", spy)
    return came


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_inference_means_the_same_alone_and_behind_another(served, shortcuts, variant):
    request = VARIANTS[variant]
    with closing(served.connect_http()) as warm, closing(served.connect_http()) as cold:
        for value in range(4):
            got = ask(warm, added(value, 1), whole=True)
            assert got.startswith(b"HTTP/1.1 200 OK\r\n")
            assert got.endswith(row(value + 1) + row(value - 1))
        assert added(3, 1) in shortcuts
        before = len(shortcuts)
        wanted = [ask(cold, request, whole=False) for _ in range(3)]
        assert len(shortcuts) == before
        found = [ask(warm, request, whole=True) for _ in range(3)]
        assert found == wanted
        assert ask(warm, added(8, 9), whole=True).endswith(row(17) + row(-1))


def test_the_core_is_asked_the_same_alone_and_behind_another(served, shortcuts):
    def seen(request: bytes, *, whole: bool):
        served.core.unit = "x-user"
        with closing(served.connect_http()) as sock:
            for _ in range(4):
                ask(sock, request, whole=whole)
        came = served.call(lambda: served.core.seen[-1])
        return came.head, [bytes(part) for part in came.data], came.id, came.traffic_unit

    for lines in ((), ("X-User: ann",)):
        request = post(USUAL, TENSORS, *lines)
        assert seen(request, whole=True) == seen(request, whole=False)
        assert request in shortcuts


def test_a_client_that_leaves_is_cancelled_on_the_short_way_too(served, shortcuts):
    head = {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32"}
    text = json.dumps({"inputs": [{**head, "parameters": {"binary_data_size": 16}}]}).encode()
    request = post(text, bytes(16), path="/v2/models/held/infer")
    with ExitStack() as stack:
        sock = stack.enter_context(closing(served.connect_http()))
        for _ in range(3):
            sock.sendall(request)
            served.wait_until(lambda: len(served.core.waiting) == 1)
            served.call(served.core.release)
            answers(sock)
        assert request in shortcuts
        before = len(shortcuts)
        sock.sendall(request)
        served.wait_until(lambda: len(served.core.waiting) == 1)
        assert len(shortcuts) == before + 1
    served.wait_until(lambda: len(served.core.cancelled) == 1)
