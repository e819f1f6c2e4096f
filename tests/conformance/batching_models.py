"""Models whose requests wait for company, and clients of all kinds that send them."""

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.checklist_models import port, write_echo
from tests.conformance.clients import KINDS, Client
from tests.conformance.metrics_page import wait_pending
from tests.conformance.python_models import write_python_model
from tests.conformance.repeat_model import inflight
from tests.conformance.runtime_process import RuntimeProcess
from tests.conformance.sequence_clients import statistics

# Longer than a test waits for an answer, and not so long that a test that fails hangs.
FOREVER = 60.0
ROWS = 8


def batching(preferred: Sequence[int] = (), delay=FOREVER, policy="", more="") -> str:
    sizes = f"preferred_batch_size: {list(preferred)}" if preferred else ""
    return (
        f"dynamic_batching {{ {sizes} max_queue_delay_microseconds: {int(delay * 1e6)} "
        f"default_queue_policy {{ {policy} }} {more} }}"
    )


def write_batcher(repository: Path, name: str, *args: Any, of_input: str = "", **more: Any) -> None:
    """The checklist's `batcher`; the other arguments are those of `batching`."""
    config = f"max_batch_size: {ROWS} instance_group {{ count: 1 }} {batching(*args, **more)}"
    write_echo(repository, name, inputs=2, more=config, of_input=of_input)


def write_gate(
    repository: Path, name: str, config: str, *, rows=ROWS, instances=1, source="gate.py"
) -> None:
    """A batcher that holds a batch (`late_gate.py`: an answer) with a number below 0 until it is opened."""
    ports = "".join(
        port(kind, f"{kind.upper()}{n}") for kind in ("input", "output") for n in (0, 1)
    )
    write_python_model(
        repository,
        name,
        source=(Path(__file__).parent / "python_models" / source).read_text(),
        config=f"max_batch_size: {rows}\n{ports}{port('output', 'ORDER', 'INT32', [1])}"
        f"instance_group {{ count: {instances} kind: KIND_CPU }}\n{config}",
    )


@dataclass(frozen=True)
class Sent:
    """A request that was answered."""

    result: Any
    seconds: float

    def output(self, name="OUTPUT0") -> Any:
        return self.result.as_numpy(name)

    @property
    def order(self) -> int:
        """Of a gate: the number of its execution."""
        return int(self.output("ORDER").flat[0])


class Crowd:
    """Requests that are under way at the same time, each by a stock client of its own, of every kind in turn."""

    def __init__(self, server: RuntimeProcess, repository: Path, pool: ThreadPoolExecutor) -> None:
        self.server = server
        self._repository = repository
        self._pool = pool
        self._kinds = itertools.cycle(KINDS)

    def send(self, model: str, rows=1, *, width=4, value=1.0, **more: Any) -> Future[Sent]:
        """INPUT0 filled with the value, INPUT1 with the next; `names` of those that are given."""
        names = more.pop("names", ("INPUT0", "INPUT1"))
        inputs = {
            name: np.full((rows, width), value + (name == "INPUT1"), np.float32) for name in names
        }
        kind = more.pop("kind", None) or next(self._kinds)
        return self._pool.submit(self._ask, kind, model, inputs, more)

    def _ask(self, kind: str, model: str, inputs: Any, more: dict[str, Any]) -> Sent:
        client = Client(self.server, kind)
        began = time.monotonic()
        try:
            return Sent(client.ask(model, inputs, **more), time.monotonic() - began)
        finally:
            client.close()

    def queue(self, model: str, *sizes: int, **more: Any) -> list[Future[Sent]]:
        """Requests that wait behind each other in this order."""
        sent = []
        for number, rows in enumerate(sizes, 1):
            sent.append(self.send(model, rows, **more))
            wait_pending(self.server, model, number)
        return sent

    @contextmanager
    def closed_gate(self, model: str, rows=ROWS) -> Iterator[None]:
        """The gate executes a batch for as long as the block lasts; nobody else is executed meanwhile."""
        self.close_gate(model)
        holder = self.send(model, rows, value=-1)
        try:
            self.wait_running(model, 1)
            yield
        finally:
            self.open_gate(model)
        holder.result()

    def close_gate(self, model: str) -> None:
        (self._repository / model / "open").unlink(missing_ok=True)

    def open_gate(self, model: str) -> None:
        (self._repository / model / "open").touch()

    def wait_running(self, model: str, count: int) -> None:
        """So many requests are there, and all of them are being executed."""
        self.server.wait_for(lambda: inflight(self.server, model) == count, f"{count} requests")
        wait_pending(self.server, model, 0)

    def ran(self, model: str) -> list[int]:
        """Requests in each execution of a gate so far, as its model counts them."""
        file = self._repository / model / "ran"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    @contextmanager
    def batches(self, model: str, expected: dict[int, int]) -> Iterator[None]:
        """What the block adds to the executions of a model, which it loads: batch size → how many."""
        if self.server.call("GET", f"/v2/models/{model}/ready")[0] != 200:
            assert self.server.call("POST", f"/v2/repository/models/{model}/load", {})[0] == 200
        before = self._counts(model)
        yield
        found: dict[int, int] = {}

        def all_counted() -> bool:
            now = self._counts(model)
            found.clear()
            found.update({size: now[size] - before.get(size, 0) for size in now})
            return sum(found.values()) >= sum(expected.values())

        self.server.wait_for(all_counted, f"{sum(expected.values())} executions")
        assert {size: count for size, count in found.items() if count} == expected

    def _counts(self, model: str) -> dict[int, int]:
        return statistics(self.server, model)["batches"]


@contextmanager
def crowd(server: RuntimeProcess, repository: Path) -> Iterator[Crowd]:
    with ThreadPoolExecutor(32) as pool:
        yield Crowd(server, repository, pool)
