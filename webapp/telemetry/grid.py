"""Samples laid on the steps of a window: unknown is a gap, known and idle is the idle value. Pure."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from webapp.telemetry.ranges import Window
from webapp.telemetry.totals import METRICS, Counted, Totals, rounded, value_of

Series = list[float | None]


class Placed(Counted, Protocol):
    """A sample that knows where and when it was taken."""

    @property
    def at(self) -> datetime: ...
    @property
    def runtime_id(self) -> int: ...
    @property
    def model_name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def arm(self) -> str: ...


EVERYTHING = "all"
AVERAGED_MS = 5000.0  # a longer pause between two readings is a gap, whatever the counters say
_GAUGES = {"pending", "inflight"}


@dataclass(frozen=True, slots=True)
class Grouping:
    """What samples are added up to. Merging histograms is most of the work, so it can be left out."""

    key: Callable[[Placed], Hashable]  # None: does not belong to any
    with_latency: bool = True


by_everything = Grouping(lambda sample: EVERYTHING)
by_version = Grouping(lambda sample: (sample.model_name, sample.version))
by_version_counts = Grouping(by_version.key, with_latency=False)
by_model_counts = Grouping(lambda sample: sample.model_name, with_latency=False)
by_placed_version = Grouping(lambda sample: sample.version if sample.arm else None)

_Place = tuple[int, str, int]  # runtime, model, version: where one gauge is read


@dataclass(slots=True)
class _Cell:
    totals: Totals = field(default_factory=Totals)
    pending: dict[_Place, int] = field(default_factory=dict)
    inflight: dict[_Place, int] = field(default_factory=dict)

    def add(self, sample: Placed, span_ms: float, *, with_latency: bool) -> None:
        self.totals.add(sample, span_ms=span_ms, with_latency=with_latency)
        place = (sample.runtime_id, sample.model_name, sample.version)
        _raise_peak(self.pending, place, sample.pending)
        _raise_peak(self.inflight, place, sample.inflight)

    def settled(self) -> Totals:
        """Peaks over the step, added over the places they were read at."""
        self.totals.pending = sum(self.pending.values()) if self.pending else None
        self.totals.inflight = sum(self.inflight.values()) if self.inflight else None
        return self.totals


def _raise_peak(peaks: dict[_Place, int], place: _Place, value: int | None) -> None:
    if value is not None:
        peaks[place] = max(peaks.get(place, 0), value)


def _value(metric: str, totals: Totals | None) -> float | None:
    """A gauge that no sample of the step has was at rest: only idle samples are left out."""
    value = value_of(metric, totals)
    return METRICS[metric].idle if value is None else value


class Grid:
    """Cover first, then add: rates need to know for how long a runtime was seen."""

    def __init__(self, window: Window, groupings: Sequence[Grouping]) -> None:
        self.window = window
        self._groupings = groupings
        self._coverage: dict[int, dict[int, float]] = defaultdict(dict)
        self._cells: dict[Hashable, dict[int, _Cell]] = defaultdict(dict)
        self._runtimes: dict[Hashable, set[int]] = defaultdict(set)
        self._requests: dict[Hashable, int] = defaultdict(int)
        self._averaged: set[int] = set()  # steps whose counts stand in a later one
        self._told: set[tuple[Hashable, str]] = set()  # gauges that some sample has

    def cover(self, *, runtime_id: int, at: datetime, span_ms: float) -> None:
        index = self.window.index_of(at)
        if span_ms > 0 and 0 <= index < self.window.count:
            coverage = self._coverage[runtime_id]
            coverage[index] = coverage.get(index, 0.0) + span_ms
            if span_ms <= AVERAGED_MS:
                steps = round(span_ms / 1000 / self.window.step)
                self._averaged.update(range(index - steps + 1, index))

    def add(self, sample: Placed) -> None:
        index = self.window.index_of(sample.at)
        span_ms = self._coverage.get(sample.runtime_id, {}).get(index, 0.0)
        if span_ms <= 0:
            return
        for grouping in self._groupings:
            key = grouping.key(sample)
            if key is None:
                continue
            cells = self._cells[key]
            cell = cells.get(index)
            if cell is None:
                cell = cells[index] = _Cell()
            cell.add(sample, span_ms, with_latency=grouping.with_latency)
            self._runtimes[key].add(sample.runtime_id)
            self._requests[key] += sample.requests
            if sample.pending is not None:
                self._told.add((key, "pending"))
            if sample.inflight is not None:
                self._told.add((key, "inflight"))

    def add_all(self, samples: Iterable[Placed]) -> None:
        for sample in samples:
            self.add(sample)

    def busiest(self) -> list[Hashable]:
        """Keys by their number of requests."""
        return sorted(self._cells, key=lambda key: -self._requests[key])

    def known(self, key: Hashable) -> list[bool]:
        seen = self._runtimes[key] if key in self._runtimes else set(self._coverage)
        steps = set[int]().union(*(self._coverage.get(runtime, {}) for runtime in seen))
        return [index in steps for index in range(self.window.count)]

    def unknown(self, key: Hashable) -> list[bool]:
        """What is not known, not even as part of the sample after a missed tick."""
        known = self.known(key)
        return [not one and index not in self._averaged for index, one in enumerate(known)]

    def series(self, key: Hashable, *metrics: str) -> dict[str, Series]:
        cells = self._cells.get(key, {})
        untold = {m for m in metrics if m in _GAUGES and cells and (key, m) not in self._told}
        values: dict[str, Series] = {metric: [] for metric in metrics}
        for index, known in enumerate(self.known(key)):
            totals = cells[index].settled() if index in cells else None
            for metric in metrics:
                said = known and metric not in untold
                value = rounded(_value(metric, totals)) if said else None
                values[metric].append(value)
        return values

    def totals(self, key: Hashable) -> Totals:
        """The whole window added up; `rate` over the time it was seen, gauges of its last samples."""
        whole = Totals()
        for _, cell in sorted(self._cells.get(key, {}).items()):
            whole.merge(cell.totals)
            whole.pending, whole.inflight = cell.settled().pending, cell.settled().inflight
        seen_ms = self.seen_ms(key)
        whole.rate = 1000 * whole.requests / seen_ms if seen_ms else 0.0
        return whole

    def seen_ms(self, key: Hashable) -> float:
        """For how long the window is known: the longest of the runtimes concerned."""
        seen = self._runtimes[key] if key in self._runtimes else set(self._coverage)
        return max((sum(self._coverage[runtime].values()) for runtime in seen), default=0.0)
