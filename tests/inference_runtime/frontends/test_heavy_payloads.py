"""Payloads that take long to read or to write: everybody else is served meanwhile, and nothing is lost."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import numpy as np
import orjson
import pytest
import urllib3
from tritonclient.grpc import service_pb2, service_pb2_grpc

ELEMENTS = 1_500_000


class Turns:
    """The longest time that the server's loop was away, beside the time that it was watched."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.watched_s = 0.0

    @property
    def share(self) -> float:
        return self.longest_s / self.watched_s


@contextmanager
def watching(served) -> Iterator[Turns]:
    turns, over = Turns(), threading.Event()

    async def watch() -> None:
        started = last = time.perf_counter()
        while not over.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            turns.longest_s = max(turns.longest_s, now - last)
            last = now
        turns.watched_s = last - started

    task = asyncio.run_coroutine_threadsafe(watch(), served.loop)
    try:
        yield turns
    finally:
        over.set()
        task.result(60)


def http_infer(served, body: bytes) -> urllib3.BaseHTTPResponse:
    url = f"http://{served.http_address}/v2/models/ident/infer"
    return urllib3.request("POST", url, body=body, timeout=60)


def http_document(values: np.ndarray, *, binary: bool) -> bytes:
    return orjson.dumps(
        {
            "inputs": [
                {
                    "name": "INPUT0",
                    "datatype": "FP32",
                    "shape": [1, len(values)],
                    "data": values.tolist(),
                }
            ],
            "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": binary}}],
        }
    )


def test_a_large_json_body_and_its_answer_leave_turns_to_others(served):
    values = np.random.default_rng(3).random(ELEMENTS, np.float32)
    body = http_document(values, binary=False)
    with watching(served) as turns:
        answer = http_infer(served, body)
    assert answer.status == 200
    found = np.array(orjson.loads(answer.data)["outputs"][0]["data"], np.float32)
    np.testing.assert_array_equal(found, values)
    assert turns.share < 0.6


@pytest.mark.parametrize("count", [1, 16384, 16385, 60_000])
def test_text_made_in_pieces_reads_as_one(served, count):
    values = np.random.default_rng(count).random(count, np.float32)
    values[-1] = np.float32(-0.5)
    answer = http_infer(served, http_document(values, binary=False))
    found = orjson.loads(answer.data)["outputs"][0]["data"]
    np.testing.assert_array_equal(np.array(found, np.float32), values)


def test_large_answers_of_one_connection_keep_their_order(served):
    pool = urllib3.HTTPConnectionPool("127.0.0.1", served.http.port, maxsize=1)
    for size in (60_000, 3, 80_000, 1):
        body = http_document(np.full(size, size, np.float32), binary=False)
        answer = pool.request("POST", "/v2/models/ident/infer", body=body, timeout=60)
        assert orjson.loads(answer.data)["outputs"][0]["data"] == [float(size)] * size
    assert pool.num_connections == 1


def test_a_client_that_leaves_while_its_answer_is_written_costs_nobody_anything(served):
    body = http_document(np.ones(200_000, np.float32), binary=False)
    head = b"POST /v2/models/ident/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    for _ in range(3):
        with served.connect_http() as leaving:
            leaving.sendall(head % len(body) + body)
    answer = http_infer(served, http_document(np.ones(4, np.float32), binary=False))
    assert orjson.loads(answer.data)["outputs"][0]["data"] == [1.0] * 4
    served.wait_until(lambda: not any(c.busy for c in served.http.connections))


def typed_request(values: np.ndarray, id_: str = "") -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name="ident", id=id_)
    entry = request.inputs.add(name="INPUT0", datatype="FP32")
    entry.shape.extend([1, len(values)])
    entry.contents.fp32_contents.extend(values.tolist())
    return request


@contextmanager
def grpc_stub(served) -> Iterator[service_pb2_grpc.GRPCInferenceServiceStub]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(served.grpc_address, options) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def test_typed_contents_of_many_elements_leave_turns_to_others(served):
    values = np.random.default_rng(5).random(ELEMENTS, np.float32)
    request = typed_request(values)
    with grpc_stub(served) as stub, watching(served) as turns:
        answer = stub.ModelInfer(request, timeout=60)
    assert answer.raw_output_contents[0] == values.tobytes()
    assert turns.share < 0.6


def test_small_messages_of_a_stream_stay_behind_a_large_one(served):
    sizes = [4, 300_000, 2, 100_000, 3, 1]
    requests = [typed_request(np.full(n, n, np.float32), str(n)) for n in sizes]
    with grpc_stub(served) as stub:
        answers = list(stub.ModelStreamInfer(iter(requests), timeout=60))
    assert [one.infer_response.id for one in answers] == [str(n) for n in sizes]
    for size, one in zip(sizes, answers, strict=True):
        assert one.error_message == ""
        data = np.frombuffer(one.infer_response.raw_output_contents[0], np.float32)
        np.testing.assert_array_equal(data, np.full(size, size, np.float32))


def test_a_fault_in_a_large_message_of_a_stream_is_told_in_its_place(served):
    bad = typed_request(np.ones(200_000, np.float32), "bad")
    bad.inputs[0].datatype = "INT32"
    requests = [
        typed_request(np.ones(2, np.float32), "a"),
        bad,
        typed_request(np.ones(2, np.float32), "b"),
    ]
    with grpc_stub(served) as stub:
        answers = list(stub.ModelStreamInfer(iter(requests), timeout=60))
    assert [one.infer_response.id for one in answers] == ["a", "bad", "b"]
    assert [bool(one.error_message) for one in answers] == [False, True, False]


def test_a_stream_that_is_cancelled_while_a_message_is_read_leaves_nothing_behind(served):
    requests = [typed_request(np.ones(400_000, np.float32), str(n)) for n in range(3)]
    with grpc_stub(served) as stub:
        call = stub.ModelStreamInfer(iter(requests), timeout=60)
        served.wait_until(lambda: any(c.streams for c in served.grpc.connections))
        call.cancel()
        served.wait_until(lambda: not any(c.streams or c.orphans for c in served.grpc.connections))
        answer = stub.ModelInfer(typed_request(np.ones(3, np.float32)), timeout=60)
    assert answer.raw_output_contents[0] == np.ones(3, np.float32).tobytes()
