"""Clients that ask at full speed and check every answer by its content."""

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.conformance.client_regions import registered
from tests.conformance.clients import Client
from tests.conformance.repeat_model import WAIT_SECONDS, open_stream
from tests.conformance.runtime_process import RuntimeProcess

# What clients may be told about a model whose process was just killed: an error, and never a wrong answer.
EXPECTED_OF_A_CRASH = ("is not healthy", "no healthy instance", "is being restarted", "not ready")


@dataclass
class Findings:
    """`answers` by operation; `failures` are what must be empty."""

    answers: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    failures: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, operation: str, answers: int = 1) -> None:
        with self._lock:
            self.answers[operation] += answers

    def crashed(self) -> None:
        with self._lock:
            self.crashes += 1

    def fail(self, operation: str, what: object) -> None:
        with self._lock:
            if len(self.failures) < 100:
                self.failures.append(f"{operation}: {what}")


class Asker:
    """One thread's clients and its own random numbers."""

    def __init__(self, server: RuntimeProcess, number: int) -> None:
        self.server = server
        self.random = random.Random(number)
        self.http = Client(server, "http")
        self.grpc = Client(server, "grpc")
        self._sequence = (number + 1) << 32

    def close(self) -> None:
        self.http.close()
        self.grpc.close()

    def integers(self, rows: int) -> np.ndarray:
        seed = self.random.randrange(2**31)
        return np.random.default_rng(seed).integers(-1000, 1000, (rows, 16), np.int32)

    @property
    def client(self) -> Client:
        return self.random.choice((self.http, self.grpc))

    # Each operation returns how many answers it checked, and raises AssertionError for a wrong one.

    def sums(self, model: str = "simple") -> int:
        rows = self.random.randint(1, 4)
        a, b = self.integers(rows), self.integers(rows)
        id_ = str(self.random.random())
        result = self.client.ask(model, {"INPUT0": a, "INPUT1": b}, request_id=id_)
        response = result.get_response()
        assert (response["id"] if isinstance(response, dict) else response.id) == id_
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
        return 1

    def changing(self) -> int:
        """The model that is loaded anew all the time."""
        return self.sums("changing")

    def ensemble(self) -> int:
        a, b = self.integers(2), self.integers(2)
        result = self.client.ask("twice", {"INPUT0": a, "INPUT1": b})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), 2 * a)
        return 1

    def cached(self) -> int:
        value = np.full((1, 8), self.random.randrange(50), np.float32)
        result = self.client.ask("cached", {"INPUT0": value})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)
        return 1

    def limited(self) -> int:
        value = np.full((1, 3), self.random.random(), np.float32)
        result = self.client.ask("limited", {"INPUT0": value})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)
        return 1

    def large(self) -> int:
        value = np.random.default_rng(self.random.randrange(2**31)).random((1, 300_000), np.float32)
        result = self.client.ask("cached", {"INPUT0": value})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)
        return 1

    def sequence(self) -> int:
        model = self.random.choice(("sums_direct", "sums_oldest"))
        self._sequence += 1
        client, total, count = self.client, 0, self.random.randint(1, 6)
        for position in range(count):
            value = self.random.randrange(100)
            total += value
            result = client.ask(
                model,
                {"INPUT0": np.full((1, 1), value, np.int32)},
                sequence_id=self._sequence,
                sequence_start=position == 0,
                sequence_end=position == count - 1,
            )
            assert result.as_numpy("OUTPUT0").item() == total
        return count

    def shared_memory(self) -> int:
        a, b = self.integers(1), self.integers(1)
        client = self.client
        with registered(client, 128, a, b) as region, registered(client, 64) as target:
            tensors = []
            for position, name in enumerate(("INPUT0", "INPUT1")):
                tensor = client.input(name, [1, 16], "INT32")
                tensor.set_shared_memory(region.name, 64, offset=64 * position)
                tensors.append(tensor)
            output = client.requested("OUTPUT0")
            output.set_shared_memory(target.name, 64)
            client.infer("simple", tensors, outputs=[output])
            np.testing.assert_array_equal(target.array(), a + b)
        return 1

    def stream(self) -> int:
        """Several decoupled requests on one stream: each answer once, in the order of its request."""
        counts = [self.random.randint(0, 5) for _ in range(4)]
        with self.server.grpc_client() as client, open_stream(client) as stream:
            for number, count in enumerate(counts):
                base = number * 1000
                stream.repeat(
                    [base + n for n in range(count)],
                    delay_ms=self.random.randint(0, 2),
                    request_id=str(number),
                    enable_empty_final_response=True,
                )
            found: dict[str, list[int]] = {str(number): [] for number in range(4)}
            for result in stream.results(sum(counts) + 4):
                response = result.get_response()
                if response.outputs:
                    found[response.id].append(int(result.as_numpy("OUT")[0]))
            assert stream.idle
        for number, count in enumerate(counts):
            assert found[str(number)] == [number * 1000 + n for n in range(count)]
        return sum(counts) + 4

    def events(self) -> int:
        count = self.random.randint(0, 5)
        connection = http.client.HTTPConnection(self.server.http, timeout=WAIT_SECONDS)
        body = {"IN": list(range(count)), "DELAY": [0] * count, "WAIT": 0}
        connection.request("POST", "/v2/models/repeat/generate_stream", json.dumps(body))
        answer = connection.getresponse()
        lines = [line for line in answer.read().decode().split("\n\n") if line]
        connection.close()
        assert answer.status == 200
        assert [json.loads(line.removeprefix("data: "))["OUT"] for line in lines] == list(
            range(count)
        )
        return count

    def cancelled(self) -> int:
        """The callback comes once, with the answer or with the cancellation."""
        came: list[Any] = []
        ended = threading.Event()
        value = np.full((1, 3), 7, np.float32)

        def callback(result: Any, error: Any) -> None:
            came.append((result, error))
            ended.set()

        call = self.grpc.async_infer("limited", [self.grpc.tensor("INPUT0", value)], callback)
        time.sleep(self.random.random() / 500)
        call.cancel()
        assert ended.wait(WAIT_SECONDS)
        time.sleep(0.001)
        assert len(came) == 1
        return 1

    def python(self) -> int:
        a, b = self.random.random(), self.random.random()
        first, second = np.full((1, 4), a, np.float32), np.full((1, 4), b, np.float32)
        result = self.client.ask("add_sub", {"INPUT0": first, "INPUT1": second})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)
        return 1

    def malformed(self) -> int:
        """What is no request gets an error or a closed connection, and costs nobody else anything."""
        choice = self.random.randrange(4)
        if choice == 0:
            status, body = self.server.call("POST", "/v2/models/simple/infer", {"inputs": [1]})
            assert 400 <= status < 500
            assert "error" in body
            return 1
        port = self.server.ports["GRPCInferenceService" if choice == 1 else "HTTPService"]
        junk = self.random.randbytes(self.random.randint(1, 2000))
        start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if choice == 1 else b""
        if choice == 2:
            start = (
                b"POST /v2/models/simple/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"
            )
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as raw:
            raw.sendall(start + junk)
            if self.random.random() < 0.5:
                raw.shutdown(socket.SHUT_WR)
        return 1


OPERATIONS: tuple[tuple[str, int], ...] = (
    *(("sums", 30), ("changing", 10), ("ensemble", 10), ("cached", 10), ("limited", 10)),
    *(("sequence", 10), ("python", 10), ("stream", 2), ("events", 4), ("cancelled", 5)),
    *(("shared_memory", 3), ("malformed", 4), ("large", 1)),
)


def ask_until_stopped(asker: Asker, findings: Findings) -> None:
    names = [name for name, _ in OPERATIONS]
    weights = [weight for _, weight in OPERATIONS]
    while not findings.stop.is_set():
        name = asker.random.choices(names, weights)[0]
        operation: Callable[[], int] = getattr(asker, name)
        try:
            findings.count(name, operation())
        except InferenceServerException as error:
            if name == "python" and any(text in str(error) for text in EXPECTED_OF_A_CRASH):
                findings.crashed()
            else:
                findings.fail(name, error)
        except (AssertionError, OSError, grpcclient.InferenceServerException, ValueError) as error:
            findings.fail(name, repr(error))
