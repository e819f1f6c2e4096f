"""Models with sequences for the checks, and clients that walk through sequences."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from tests.conformance.clients import Client
from tests.conformance.metrics_page import pending, wait_pending
from tests.conformance.python_models import write_python_model
from tests.conformance.runtime_process import RuntimeProcess
from tests.onnx_models import write_model
from tests.sequence_models import LISTS, accumulator, accumulator_config

IDS = ("UINT64", "INT64", "UINT32", "INT32", "BYTES")
START_MISSING = "must specify the START flag on the first request of the sequence"
DELAY_US = 1_000_000
# One row per sequence: a model that keeps its sums itself, by correlation id.
_PYTHON = """
input { name: "INPUT0" data_type: TYPE_INT32 dims: [1] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }
max_batch_size: 4
"""
_ITERATIVE = """
model_transaction_policy { decoupled: True }
input { name: "INPUT" data_type: TYPE_INT32 dims: [1] }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: [1] }
max_batch_size: 4
"""
# Two models with sums of their own, one behind the other.
_ENSEMBLE = """
platform: "ensemble" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  step { model_name: "seq" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "sum" } }
  step { model_name: "seq_oldest" model_version: -1
    input_map { key: "INPUT0" value: "sum" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
}
"""


def controls(*kinds: str, datatype: str = "INT32") -> str:
    flags = "\n".join(
        f'control_input {{ name: "{kind}" control {{ kind: CONTROL_SEQUENCE_{kind} {LISTS[datatype]} }} }}'
        for kind in kinds
    )
    return (
        flags
        + ' control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }'
    )


def delayed(utilization: float) -> str:
    return (
        f"direct {{ max_queue_delay_microseconds: {DELAY_US} "
        f"minimum_slot_utilization: {utilization} }}"
    )


def write_sequence_models(repository: Path) -> None:
    strategies = {
        "seq": "direct { }",
        "seq_oldest": "oldest { }",
        "seq_ordered": "oldest { preserve_ordering: true }",
        **{f"seq_delay_{u}": delayed(u) for u in (0.0, 0.5, 1.0)},
    }
    for name, strategy in strategies.items():
        write_model(repository, name, accumulator(), config=accumulator_config(strategy))
    for strategy in ("direct", "oldest"):
        short = accumulator_config(f"{strategy} {{ }}", idle_us=1_000_000)
        write_model(repository, f"seq_idle_{strategy}", accumulator(), config=short)
    slow = accumulator(slow=True)
    write_model(repository, "seq_slow", slow, config=accumulator_config(idle_us=30_000_000))
    for datatype in IDS:
        config = accumulator_config(corrid=datatype)
        write_model(repository, f"seq_id_{datatype}", accumulator(corrid=datatype), config=config)
    for datatype in LISTS:
        config = accumulator_config(controls=datatype)
        write_model(repository, f"seq_flags_{datatype}", accumulator(datatype), config=config)
    single = accumulator(batching=False)
    write_model(repository, "seq_single", single, config=accumulator_config(max_batch_size=0))
    shown = accumulator_config(more='output { name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 }')
    write_model(repository, "seq_shown", accumulator(), config=shown)
    # Nothing is written down but the controls and the state: the rest is the file's.
    bare = accumulator_config().split("sequence_batching", 1)[1]
    write_model(
        repository, "seq_bare", accumulator(), config=f"max_batch_size: 4 sequence_batching{bare}"
    )
    directory = repository / "seq_ensemble"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(_ENSEMBLE)


def write_python_sequences(repository: Path) -> None:
    batching = f"{{ {controls('START', 'END', 'READY')} }}"
    write_python_model(repository, "accumulate", config=f"{_PYTHON} sequence_batching {batching}")
    source = (Path(__file__).parent / "python_models" / "countdown.py").read_text()
    iterative = f"sequence_batching {{ iterative_sequence: true {controls('START')} }}"
    for name, batching in (("countdown", iterative), ("no_countdown", "")):
        write_python_model(repository, name, source=source, config=_ITERATIVE + batching)


def flags_of(position: int, count: int) -> dict[str, bool]:
    return {"sequence_start": position == 0, "sequence_end": position == count - 1}


class Walker:
    """Steps of sequences through one stock client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def step(self, model: str, id_: int | str, value: int, flags: str = "", **more: Any) -> Any:
        """The result; `flags`: "s" for START, "e" for END."""
        shape = (1,) if model == "seq_single" else (1, 1)
        return self.client.ask(
            model,
            {"INPUT0": np.full(shape, value, np.int32)},
            sequence_id=id_,
            sequence_start="s" in flags,
            sequence_end="e" in flags,
            **more,
        )

    def sum(self, *args: Any, **more: Any) -> int:
        return int(self.step(*args, **more).as_numpy("OUTPUT0").ravel()[0])

    def walk(self, model: str, id_: int | str, values: Sequence[int]) -> list[int]:
        """A whole sequence; the sums it showed."""
        last = len(values) - 1
        return [
            self.sum(model, id_, value, "s" * (n == 0) + "e" * (n == last))
            for n, value in enumerate(values)
        ]


class Crowd:
    """Steps that are under way at the same time, over one gRPC client."""

    def __init__(self, server: RuntimeProcess, pool: ThreadPoolExecutor) -> None:
        self._server = server
        self._pool = pool
        self._walker = Walker(Client(server, "grpc"))

    def sum(self, *args: Any, **more: Any) -> Future[int]:
        return self._pool.submit(self._walker.sum, *args, **more)

    def pending(self, model: str) -> int:
        """As the gauge says."""
        return pending(self._server, model)

    def wait_pending(self, model: str, count: int) -> None:
        wait_pending(self._server, model, count)

    def close(self) -> None:
        self._walker.client.close()


@contextmanager
def crowd(server: RuntimeProcess) -> Iterator[Crowd]:
    with ThreadPoolExecutor(32) as pool:
        people = Crowd(server, pool)
        try:
            yield people
        finally:
            people.close()


def statistics(server: RuntimeProcess, model: str) -> dict[str, Any]:
    """Counts of one model."""
    _, body = server.call("GET", f"/v2/models/{model}/stats")
    stats = body["model_stats"][0]
    return {
        "success": stats["inference_stats"]["success"]["count"],
        "inferences": stats["inference_count"],
        "executions": stats["execution_count"],
        "batches": {
            size["batch_size"]: size["compute_infer"]["count"] for size in stats["batch_stats"]
        },
    }


def stream_steps(
    client: grpcclient.InferenceServerClient,
    model: str,
    steps: Sequence[tuple[int | str, int, dict[str, bool]]],
) -> None:
    """Sends (id, value, flags) over the stream that is open, without waiting for anything."""
    for number, (id_, value, flags) in enumerate(steps):
        tensor = grpcclient.InferInput("INPUT0", [1, 1], "INT32")
        tensor.set_data_from_numpy(np.array([[value]], np.int32))
        client.async_stream_infer(model, [tensor], request_id=str(number), sequence_id=id_, **flags)
