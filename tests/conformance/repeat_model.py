"""The decoupled model of the checklist, by the built-in `repeat` backend, and what streams give back."""

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from tests.conformance.runtime_process import RuntimeProcess
from tests.repeat_models import REPEAT

WAIT_SECONDS = 20
_CONFIG = REPEAT + "instance_group { count: 4 kind: KIND_CPU }"


def write_repeat(repository: Path) -> None:
    (repository / "repeat" / "1").mkdir(parents=True)
    (repository / "repeat" / "config.pbtxt").write_text(_CONFIG)


def repeat_inputs(
    values: Sequence[int], *, delay_ms: int = 0, delays: Sequence[int] | None = None
) -> list[Any]:
    arrays = {
        "IN": np.array(values, np.int32),
        "DELAY": np.array([delay_ms] * len(values) if delays is None else delays, np.uint32),
        "WAIT": np.zeros(1, np.uint32),
    }
    tensors = []
    for name, array in arrays.items():
        datatype = "INT32" if name == "IN" else "UINT32"
        tensor = grpcclient.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


class Stream:
    """A stream of tritonclient's, and what its callback was called with."""

    def __init__(self, client: grpcclient.InferenceServerClient) -> None:
        self.client = client
        self._answers: queue.Queue[tuple[Any, Any]] = queue.Queue()

    def callback(self, result: Any, error: Any) -> None:
        self._answers.put((result, error))

    def next(self) -> tuple[Any, Any]:
        """(result, error) of the next answer."""
        return self._answers.get(timeout=WAIT_SECONDS)

    def results(self, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            result, error = self.next()
            assert error is None, error
            found.append(result)
        return found

    @property
    def idle(self) -> bool:
        return self._answers.empty()

    def repeat(self, values: Sequence[int], **more: Any) -> None:
        delays = {key: more.pop(key) for key in ("delay_ms", "delays") if key in more}
        self.client.async_stream_infer("repeat", repeat_inputs(values, **delays), **more)


@contextmanager
def open_stream(client: grpcclient.InferenceServerClient, **more: Any) -> Iterator[Stream]:
    stream = Stream(client)
    client.start_stream(stream.callback, **more)
    try:
        yield stream
    finally:
        client.stop_stream(cancel_requests=True)


def inflight(server: RuntimeProcess, model: str = "repeat") -> int:
    """Requests of the model that are not settled."""
    models = server.call("GET", "/v2/switchyard/statistics")[1]["models"]
    return sum(entry["inflight"] for entry in models if entry["model"] == model)


def final(result: Any) -> bool:
    return bool(result.get_response().parameters["triton_final_response"].bool_param)
