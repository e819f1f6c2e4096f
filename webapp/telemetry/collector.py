"""Reads runtimes side by side: a slow or dead one costs the others nothing."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeLacks, RuntimeProblem
from webapp.runtime_client.metrics_text import parse_metrics
from webapp.telemetry.deltas import Baseline
from webapp.telemetry.foreign import reading_of_foreign
from webapp.telemetry.frames import RuntimeView
from webapp.telemetry.readings import RuntimeReading, UnreadableStatistics, reading_of

CALL_SECONDS = 0.8  # a runtime's time to answer one call
TICK_SECONDS = 0.7  # how long a tick waits for answers; later ones count at the next tick
RETRY_SECONDS = 0.1  # how long it waits for those that failed before
ASK_AGAIN_NS = 60 * 10**9  # a runtime may be replaced by one that has our extension


class RuntimeRow(Protocol):
    """What is needed of a runtime's row."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def http_address(self) -> str: ...
    @property
    def grpc_address(self) -> str: ...
    @property
    def metrics_address(self) -> str: ...


Connect = Callable[[RuntimeRow], RuntimeConnection]


@dataclass(slots=True)
class _Watch:
    """One runtime: its baseline, the read under way, and since when it fails."""

    row: RuntimeRow
    baseline: Baseline = field(default_factory=Baseline)
    pending: "Future[tuple[RuntimeReading, int]] | None" = None
    failing_since: datetime | None = None
    reason: str = ""
    foreign_until_ns: int = 0  # it lacks our extension; not asked for it again before this

    def address(self) -> tuple[str, str, str]:
        return (self.row.http_address, self.row.grpc_address, self.row.metrics_address)


@dataclass(frozen=True, slots=True)
class Observation:
    runtime_id: int
    view: RuntimeView


class Collector:
    def __init__(self, connect: Connect, *, threads: int = 32) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="read")
        self._watches: dict[int, _Watch] = {}

    def forget(self) -> None:
        """Somebody else may read from now on; what follows starts without a baseline."""
        self._watches.clear()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def observe(self, rows: Iterable[RuntimeRow], *, at: datetime) -> list[Observation]:
        """One look at every runtime, in at most TICK_SECONDS."""
        self._follow(rows)
        watches = list(self._watches.values())
        for watch in watches:
            if watch.pending is None:
                watch.pending = self._pool.submit(self._read, watch)
        wait([w.pending for w in watches if w.pending and not w.failing_since], TICK_SECONDS)
        wait([w.pending for w in watches if w.pending and w.failing_since], RETRY_SECONDS)
        return [Observation(watch.row.id, self._view(watch, at)) for watch in watches]

    def _follow(self, rows: Iterable[RuntimeRow]) -> None:
        """Keeps what is known of a runtime while its addresses stay."""
        watches: dict[int, _Watch] = {}
        for row in rows:
            fresh = _Watch(row)
            known = self._watches.get(row.id)
            if known is not None and known.address() == fresh.address():
                known.row = row
                fresh = known
            watches[row.id] = fresh
        self._watches = watches

    def _view(self, watch: _Watch, at: datetime) -> RuntimeView:
        name = watch.row.name
        if watch.pending is None or not watch.pending.done():
            watch.reason = watch.reason or f"no answer within {TICK_SECONDS:g} s"
            watch.failing_since = watch.failing_since or at
            return RuntimeView(name, None, watch.reason, watch.failing_since)
        done, watch.pending = watch.pending, None
        try:
            reading, read_at_ns = done.result()
        except (RuntimeProblem, UnreadableStatistics) as problem:
            watch.reason = str(problem)
            watch.failing_since = watch.failing_since or at
            return RuntimeView(name, None, watch.reason, watch.failing_since)
        watch.failing_since, watch.reason = None, ""
        return RuntimeView(name, watch.baseline.advance(reading, read_at_ns=read_at_ns))

    def _read(self, watch: _Watch) -> tuple[RuntimeReading, int]:
        """In a thread of the pool, one at a time per runtime."""
        connection = self._connect(watch.row)
        if time.monotonic_ns() >= watch.foreign_until_ns:
            try:
                body = connection.switchyard_statistics(timeout=CALL_SECONDS)
                return reading_of(body), time.monotonic_ns()
            except RuntimeLacks:
                watch.foreign_until_ns = time.monotonic_ns() + ASK_AGAIN_NS
        return _read_foreign(connection, with_metrics=bool(watch.row.metrics_address))


def _read_foreign(
    connection: RuntimeConnection, *, with_metrics: bool
) -> tuple[RuntimeReading, int]:
    statistics = connection.statistics(timeout=CALL_SECONDS)
    # A read without its metrics fails as a whole: counts from one source only would jump.
    text = connection.metrics_text(timeout=CALL_SECONDS) if with_metrics else None
    at_ns = time.monotonic_ns()
    metrics = None if text is None else parse_metrics(text)
    return reading_of_foreign(statistics, metrics, at_ns=at_ns), at_ns
