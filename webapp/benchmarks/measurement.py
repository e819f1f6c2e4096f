"""Measures one rung: windows of load, with the server's own counters beside each, until stable."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webapp.benchmarks.load_generator import run_window
from webapp.benchmarks.load_plan import MAX_WINDOWS
from webapp.benchmarks.statistics import Figures, Window, figures, is_stable
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeProblem
from webapp.runtime_client.load_client import LoadClient, open_load_client
from webapp.runtime_client.types import Tensor, VersionStatistics

_WARM_UP_SECONDS = 0.5


@dataclass(frozen=True)
class Target:
    """What is measured, and by which address."""

    protocol: str
    address: str
    model: str
    version: int
    tensors: Sequence[Tensor]
    concurrency_limit: int


@dataclass(frozen=True)
class Measured:
    figures: Figures
    windows: int
    stable: bool


class NothingAnswered(Exception):
    """Every request of a window failed; the message is the first failure's own text."""


class Bench:
    """Holds the connections over all rungs. Use as a context manager, from one thread."""

    def __init__(self, target: Target, observer: RuntimeConnection) -> None:
        self._target = target
        self._observer = observer
        self._loop = asyncio.Runner()
        self._client: LoadClient | None = None

    def __enter__(self) -> "Bench":
        self._loop.run(self._open())
        return self

    def __exit__(self, *_unused: object) -> None:
        if self._client is not None:
            self._loop.run(self._client.close())
        self._loop.close()

    async def _open(self) -> None:
        target = self._target
        self._client = open_load_client(
            target.protocol,
            target.address,
            model=target.model,
            version=target.version,
            tensors=target.tensors,
            limit=target.concurrency_limit,
        )

    def measure(
        self,
        concurrency: int,
        window_seconds: float,
        *,
        stopped: Callable[[], bool],
        told: Callable[[int], None],
    ) -> Measured:
        """`told(n)` after each window. Raises NothingAnswered; whatever `told` raises goes through."""
        self._window(concurrency, _WARM_UP_SECONDS, stopped)
        windows: list[Window] = []
        while len(windows) < MAX_WINDOWS and not is_stable(windows):
            windows.append(self._window(concurrency, window_seconds, stopped))
            told(len(windows))
        return Measured(figures(windows), len(windows), is_stable(windows))

    def _window(self, concurrency: int, seconds: float, stopped: Callable[[], bool]) -> Window:
        assert self._client is not None
        before = self._counters()
        load = self._loop.run(
            run_window(self._client, concurrency=concurrency, seconds=seconds, stopped=stopped)
        )
        after = self._counters()
        if not load.latencies_ns and load.errors:
            raise NothingAnswered(load.first_error or "no answer in time")
        return _window_of(
            load.seconds, load.latencies_ns, load.errors, load.cpu_seconds, before, after
        )

    def _counters(self) -> VersionStatistics | None:
        try:
            found = self._observer.statistics(self._target.model, self._target.version)
        except RuntimeProblem:
            return None
        return found[0] if found else None


def _window_of(
    seconds: float,
    latencies_ns: Sequence[int],
    errors: int,
    cpu_seconds: float,
    before: VersionStatistics | None,
    after: VersionStatistics | None,
) -> Window:
    window = Window(seconds, latencies_ns, errors, cpu_seconds)
    if before is None or after is None or after.success_count < before.success_count:
        return window  # the runtime restarted in between, or keeps no statistics
    return Window(
        seconds,
        latencies_ns,
        errors,
        cpu_seconds,
        queue_ns=after.queue_ns - before.queue_ns,
        compute_ns=_compute(after) - _compute(before),
        successes=after.success_count - before.success_count,
        inferences=after.inference_count - before.inference_count,
        executions=after.execution_count - before.execution_count,
    )


def _compute(statistics: VersionStatistics) -> int:
    return statistics.compute_input_ns + statistics.compute_infer_ns + statistics.compute_output_ns
