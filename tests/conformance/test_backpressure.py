"""Ensembles whose first step makes responses faster than the next one takes them, through a real gRPC client."""

import os
import queue
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from tests.conformance.python_models import write_python_model
from tests.conformance.python_world import eventually
from tests.conformance.repeat_model import inflight
from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.inference_runtime.routing.ensembles import step, write_ensemble

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
WAIT_SECONDS = 100
MANY = 20_000
# What may wait before a producer is held back, two portions that are on their way, and one more.
MOST_AHEAD = 1024 + 2 * 256 + 1

_DECOUPLED = """
    max_batch_size: 0
    model_transaction_policy { decoupled: True }
    input { name: "COUNT" data_type: TYPE_INT32 dims: [1] }
    output { name: "VALUE" data_type: TYPE_INT32 dims: [1, -1] }
"""
_TAKES = """
    max_batch_size: 256
    dynamic_batching { }
    input { name: "VALUE" data_type: TYPE_INT32 dims: [-1] }
    output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
"""
# Each of them writes how far it is into a file beside its version, and its process id.
_MAKER = """
import asyncio, os, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.made = open(os.path.join(pb_utils.get_model_dir(), "made"), "w")

    def note(self, number):
        self.made.seek(0)
        self.made.write(f"{os.getpid()} {number} ")
        self.made.flush()

    def count(self, request):
        return int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])

    def send(self, sender, number, width=1):
        values = np.full((1, width), number, np.int32)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("VALUE", values)]))
        self.note(number)

    def close(self, sender):
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_SYNC = (
    _MAKER
    + """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(self.count(request)):
                self.send(sender, number)
            self.close(sender)
"""
)
_THREAD = (
    _MAKER
    + """
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.make, args=(request,), daemon=True).start()

    def make(self, request):
        sender = request.get_response_sender()
        for number in range(self.count(request)):
            self.send(sender, number)
        self.close(sender)
"""
)
_ASYNC = (
    _MAKER
    + """
    async def execute(self, requests):
        await asyncio.gather(*[self.make(request) for request in requests])

    async def make(self, request):
        sender = request.get_response_sender()
        for number in range(self.count(request)):
            self.send(sender, number)
            if number % 16 == 0:
                await asyncio.sleep(0)
        self.close(sender)
"""
)
_LARGE = (
    _MAKER
    + """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(self.count(request)):
                self.send(sender, number, 1 << 18)
            self.close(sender)
"""
)
_STUBBORN = (
    _MAKER
    + """
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(self.count(request)):
                self.send(sender, number)
            self.close(sender)
"""
)
_TAKER = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        while os.path.exists(os.path.join(pb_utils.get_model_dir(), "stop")):
            time.sleep(0.01)
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()[:, :1].copy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])
"""
MAKERS = {
    "sync": _SYNC,
    "thread": _THREAD,
    "async": _ASYNC,
    "large": _LARGE,
    "stubborn": _STUBBORN,
}


class Bench:
    """A runtime with an ensemble `<maker>_flow` per kind of producer; the step behind it can be stopped."""

    def __init__(self, server: RuntimeProcess, path: Path) -> None:
        self.server = server
        self.path = path

    def made(self, maker: str) -> int:
        """The number of the last response that the model could send."""
        return int((self._made(maker).read_text().split() or [0, 0])[1])

    def process(self, maker: str) -> int:
        return int(self._made(maker).read_text().split()[0])

    def _made(self, maker: str) -> Path:
        return self.path / maker / "1" / "made"

    @contextmanager
    def stopped(self) -> Iterator[None]:
        file = self.path / "taker" / "1" / "stop"
        file.touch()
        try:
            yield
        finally:
            file.unlink()

    def wait_until_held(self, maker: str) -> int:
        """How far it came."""
        eventually(lambda: self.made(maker) > 500)
        seen = -1

        def still() -> bool:
            nonlocal seen
            before, seen = seen, self.made(maker)
            threading.Event().wait(0.2)
            return before == seen

        eventually(still)
        return seen


class Call:
    def __init__(self, server: RuntimeProcess, model: str, count: int, **more: Any) -> None:
        self._answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client = grpcclient.InferenceServerClient(server.grpc)
        self._client.start_stream(lambda result, error: self._answers.put((result, error)), **more)
        tensor = grpcclient.InferInput("COUNT", [1], "INT32")
        tensor.set_data_from_numpy(np.array([count], np.int32))
        self._client.async_stream_infer(model, [tensor], enable_empty_final_response=True)

    def next(self) -> tuple[Any, Any]:
        return self._answers.get(timeout=WAIT_SECONDS)

    def all(self) -> list[int]:
        values = []
        while True:
            result, error = self.next()
            assert error is None, error.message()
            answer = result.get_response()
            if answer.parameters["triton_final_response"].bool_param and not answer.outputs:
                return values
            values.append(int(result.as_numpy("OUT")[0, 0]))

    def cancel(self) -> None:
        self._client.stop_stream(cancel_requests=True)

    def close(self) -> None:
        self._client.stop_stream()
        self._client.close()


@contextmanager
def calls(server: RuntimeProcess, model: str, counts: Sequence[int], **more: Any):
    opened = [Call(server, model, count, **more) for count in counts]
    try:
        yield opened
    finally:
        for call in opened:
            call.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_python_model(path, "taker", source=_TAKER, config=_TAKES)
    for name, source in MAKERS.items():
        write_python_model(path, name, source=source, config=_DECOUPLED)
        write_ensemble(
            path,
            f"{name}_flow",
            step(name, {"COUNT": "COUNT"}, {"VALUE": "value"})
            + step("taker", {"VALUE": "value"}, {"OUT": "OUT"}),
            inputs={"COUNT": "data_type: TYPE_INT32 dims: [1]"},
            outputs={"OUT": "data_type: TYPE_INT32 dims: [1, 1]"},
            more="",
        )
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(path, log, "--load-model=*") as server:
        yield Bench(server, path)


@pytest.mark.parametrize(("maker", "count"), [("sync", MANY), ("thread", 5000), ("async", 5000)])
def test_a_producer_waits_for_a_step_that_is_slower_and_nothing_is_lost(bench, maker, count):
    with calls(bench.server, f"{maker}_flow", [count]) as [call]:
        with bench.stopped():
            made = bench.wait_until_held(maker)
            assert made <= MOST_AHEAD
            assert inflight(bench.server, "taker") <= MOST_AHEAD
        assert call.all() == list(range(count))
    assert inflight(bench.server, f"{maker}_flow") == 0


def test_two_requests_at_once_both_end_complete(bench):
    with calls(bench.server, "thread_flow", [5000, 6000]) as opened:
        assert [call.all() for call in opened] == [list(range(5000)), list(range(6000))]


def test_a_coroutine_that_waits_leaves_the_loop_to_the_others(bench):
    with bench.stopped(), calls(bench.server, "async_flow", [MANY]) as [held]:
        made = bench.wait_until_held("async")
        with calls(bench.server, "async_flow", [100]) as [second]:
            # The same process makes all of the second one's while the first one waits.
            eventually(lambda: bench.made("async") == 99 != made)
            held.cancel()
            second.cancel()
    eventually(lambda: inflight(bench.server, "async") == 0)


def test_a_coroutine_that_awaits_nothing_waits_where_it_sends(bench):
    with calls(bench.server, "stubborn_flow", [5000]) as [call]:
        with bench.stopped():
            assert bench.wait_until_held("stubborn") <= MOST_AHEAD + 256
        assert call.all() == list(range(5000))


def test_large_responses_wait_sooner(bench):
    with bench.stopped(), calls(bench.server, "large_flow", [600]) as [call]:
        # A mebibyte each: 64 of them, and two portions of sixteen.
        eventually(lambda: bench.made("large") >= 60)
        assert inflight(bench.server, "taker") <= 64 + 2 * 17 + 1
        call.cancel()
    eventually(lambda: inflight(bench.server, "large") == 0)


@pytest.mark.parametrize("maker", ["sync", "thread", "async"])
def test_cancelling_lets_a_producer_go_that_waits(bench, maker):
    with bench.stopped(), calls(bench.server, f"{maker}_flow", [MANY]) as [call]:
        bench.wait_until_held(maker)
        call.cancel()
        eventually(lambda: bench.made(maker) == MANY - 1)
        eventually(lambda: inflight(bench.server, maker) == 0)
    eventually(lambda: inflight(bench.server, f"{maker}_flow") == 0)
    with calls(bench.server, f"{maker}_flow", [10]) as [call]:
        assert call.all() == list(range(10))


def test_a_deadline_lets_a_producer_go_that_waits(bench):
    with bench.stopped(), calls(bench.server, "sync_flow", [MANY], stream_timeout=3) as [call]:
        bench.wait_until_held("sync")
        eventually(lambda: bench.made("sync") == MANY - 1)
        assert call.next()[1] is not None
    eventually(lambda: inflight(bench.server, "sync_flow") == 0)


def test_a_producer_that_is_killed_while_it_waits_ends_its_request(bench):
    with calls(bench.server, "sync_flow", [MANY]) as [call]:
        with bench.stopped():
            bench.wait_until_held("sync")
            os.kill(bench.process("sync"), signal.SIGKILL)
            eventually(lambda: inflight(bench.server, "sync") == 0)
        while (error := call.next()[1]) is None:
            pass
    assert "Stub process 'sync_0' is not healthy" in error.message()
    eventually(lambda: inflight(bench.server, "sync_flow") == 0)
    eventually(lambda: bench.server.call("GET", "/v2/models/sync/ready")[0] == 200)
    with calls(bench.server, "sync_flow", [10]) as [call]:
        assert call.all() == list(range(10))
