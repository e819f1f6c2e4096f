"""Producers that outrun the step behind them, in every way a Python model can send, and what is asked of them."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from tests.conformance.python_models import write_python_model
from tests.conformance.python_world import eventually
from tests.conformance.runtime_process import RuntimeProcess
from tests.inference_runtime.routing.ensembles import step, write_ensemble

WAIT_SECONDS = 100
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
_FIFTY_PORTS = """
    max_batch_size: 0
    model_transaction_policy { decoupled: True }
    input { name: "VALUE" data_type: TYPE_INT32 dims: [1, -1] }
    output { name: "MORE" data_type: TYPE_INT32 dims: [1, -1] }
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
# The step behind it refuses one of its responses.
_DISLIKED = (
    _MAKER
    + """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(self.count(request)):
                values = np.full((1, 1), -1 if number == 1200 else number, np.int32)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("VALUE", values)]))
                self.note(number)
            self.close(sender)
"""
)
# Between the two: fifty responses for each that comes in.
_FIFTY = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.make, args=(request,), daemon=True).start()

    def make(self, request):
        sender = request.get_response_sender()
        number = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()[0, 0]
        for index in range(50):
            values = np.full((1, 1), number * 50 + index, np.int32)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("MORE", values)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
# Needs the producer's only instance, which waits for it.
_CALLS_BACK = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()
        if value[0, 0] == 0:
            count = pb_utils.Tensor("COUNT", np.ones(1, np.int32))
            call = pb_utils.InferenceRequest(
                model_name="sync", inputs=[count], requested_output_names=["VALUE"]
            )
            assert list(call.exec(decoupled=True))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])
"""
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
        if value.min() < 0:
            raise ValueError("it does not like that")
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])
"""
MAKERS = {
    "sync": _SYNC,
    "thread": _THREAD,
    "async": _ASYNC,
    "disliked": _DISLIKED,
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
        return int((self._made(maker).read_text().split() or ["0", "0"])[1])

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

    @property
    def idle(self) -> bool:
        return self._answers.empty()

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


def write_models(path: Path) -> None:
    """An ensemble `<maker>_flow` per kind of producer, `row_flow` of two in a row, `circle_flow`."""
    write_python_model(path, "taker", source=_TAKER, config=_TAKES)
    write_python_model(path, "calls_back", source=_CALLS_BACK, config=_TAKES)
    write_python_model(path, "fifty", source=_FIFTY, config=_FIFTY_PORTS)
    for name, source in MAKERS.items():
        write_python_model(path, name, source=source, config=_DECOUPLED)
        _write_flow(path, f"{name}_flow", _first(name) + _last("taker", "value"))
    _write_flow(path, "circle_flow", _first("sync") + _last("calls_back", "value"))
    between = step("fifty", {"VALUE": "value"}, {"MORE": "more"})
    _write_flow(path, "row_flow", _first("sync") + between + _last("taker", "more"))


def _first(model: str) -> str:
    return step(model, {"COUNT": "COUNT"}, {"VALUE": "value"})


def _last(model: str, tensor: str) -> str:
    return step(model, {"VALUE": tensor}, {"OUT": "OUT"})


def _write_flow(path: Path, name: str, steps: str) -> None:
    write_ensemble(
        path,
        name,
        steps,
        inputs={"COUNT": "data_type: TYPE_INT32 dims: [1]"},
        outputs={"OUT": "data_type: TYPE_INT32 dims: [1, 1]"},
        more="",
    )
