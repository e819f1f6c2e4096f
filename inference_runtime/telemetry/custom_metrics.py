"""Metrics that models make for themselves: counters, gauges and histograms, shared by name. Event loop only.

A family is one for all who make it with the same kind and help; a series, with the same labels. Each goes
when the last of its owners lets go of it, or dies.
"""

import bisect
import itertools
import math
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.errors import AlreadyExists, InvalidArgument
from inference_runtime.telemetry.exposition import Family, Sample, histogram, labels_text

COUNTER = "COUNTER"
GAUGE = "GAUGE"
HISTOGRAM = "HISTOGRAM"
_KINDS = (COUNTER, GAUGE, HISTOGRAM)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
MAX_SERIES = (
    10_000  # of all models together: a label that is never the same twice must not fill memory
)
MAX_FAMILIES = 1_000
MAX_BUCKETS = 512

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Series:
    labels: Mapping[str, str]
    bounds: tuple[float, ...] = ()
    value: float = 0.0  # of a histogram: the sum
    counts: list[int] = field(default_factory=list)
    holders: int = 0


@dataclass(slots=True)
class _CustomFamily:
    name: str
    help: str
    kind: str
    series: dict[Labels, _Series] = field(default_factory=dict)
    holders: int = 0

    def samples(self, source: object) -> Iterable[Sample]:
        for series in self.series.values():
            if self.kind == HISTOGRAM:
                yield from histogram(series.labels, series.bounds, series.counts, series.value)
            else:
                yield "", labels_text(series.labels), series.value


@dataclass(slots=True)
class _Held:
    family: _CustomFamily
    series: _Series | None = None  # None: the family itself


class CustomMetrics:
    """`reserved` are names that the server's own families have."""

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._families: dict[str, _CustomFamily] = {}
        self._held: dict[Hashable, dict[int, _Held]] = {}
        self._numbers = itertools.count(1)
        self._series_count = 0

    def family(self, owner: Hashable, name: str, help_: str, kind: str) -> int:
        """The number by which the owner knows it; raises InvalidArgument or AlreadyExists."""
        if kind not in _KINDS:
            raise InvalidArgument(f"Unsupported kind returned: {kind}")
        if not _NAME.fullmatch(name):
            raise InvalidArgument(f"'{name[:256]}' can not be the name of a metric")
        if name in self._reserved:
            raise AlreadyExists(f"the metric '{name}' is one of the server's own")
        family = self._families.get(name)
        if family is None:
            if len(self._families) >= MAX_FAMILIES:
                raise InvalidArgument(f"there are {MAX_FAMILIES} metric families of models already")
            family = self._families[name] = _CustomFamily(name, help_, kind)
        elif (family.kind, family.help) != (kind, help_):
            raise AlreadyExists(
                f"the metric '{name}' exists with another kind or description: {family.kind}, "
                f"'{family.help}'"
            )
        family.holders += 1
        return self._hold(owner, _Held(family))

    def metric(
        self, owner: Hashable, family: int, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> int:
        """A series of a family, by the owner's numbers; raises InvalidArgument."""
        of = self._find(owner, family).family
        bounds = _bounds(of, buckets)
        for name in labels:
            if not _LABEL.fullmatch(name) or name in ("le", "quantile"):
                raise InvalidArgument(f"'{name[:256]}' can not be a label of a metric")
        key: Labels = tuple(sorted(labels.items()))
        series = of.series.get(key)
        if series is None:
            if self._series_count >= MAX_SERIES:
                raise InvalidArgument(f"there are {MAX_SERIES} metrics of models already")
            self._series_count += 1
            counts = [0] * (len(bounds) + 1)
            series = of.series[key] = _Series(dict(labels), bounds, counts=counts)
        elif series.bounds != bounds:
            raise InvalidArgument(f"this metric of '{of.name}' exists with other buckets")
        series.holders += 1
        return self._hold(owner, _Held(of, series))

    def change(self, owner: Hashable, metric: int, by: str, value: float) -> None:
        """`by`: increment, set or observe, as the kind allows; raises InvalidArgument."""
        held = self._find(owner, metric)
        series, kind = held.series, held.family.kind
        if series is None or math.isnan(value):
            raise InvalidArgument(f"'{held.family.name}' can not be changed by {value}")
        if by == "increment" and (kind == GAUGE or (kind == COUNTER and value >= 0)):
            series.value += value
        elif by == "set" and kind == GAUGE:
            series.value = value
        elif by == "observe" and kind == HISTOGRAM:
            series.value += value
            series.counts[bisect.bisect_left(series.bounds, value)] += 1
        else:
            raise InvalidArgument(f"'{held.family.name}' is a {kind}: no {by} by {value}")

    def value(self, owner: Hashable, metric: int) -> float:
        held = self._find(owner, metric)
        if held.series is None or held.family.kind == HISTOGRAM:
            raise InvalidArgument(f"'{held.family.name}' has no single value")
        return held.series.value

    def forget(self, owner: Hashable, number: int) -> None:
        held = self._held.get(owner, {}).pop(number, None)
        if held is not None:
            self._let_go(held)

    def drop(self, owner: Hashable) -> None:
        """Whatever it still held."""
        for held in self._held.pop(owner, {}).values():
            self._let_go(held)

    def values(self, name: str, label: str) -> dict[str, float]:
        """Of the counters or gauges of a family: by what they have as this label, the latest made."""
        family = self._families.get(name)
        if family is None or family.kind == HISTOGRAM:
            return {}
        return {
            series.labels[label]: series.value
            for series in family.series.values()
            if label in series.labels
        }

    def families(self) -> list[Family[Any]]:
        return [
            Family(
                family.name,
                family.kind.lower(),
                family.help.replace("\\", "\\\\").replace("\n", "\\n"),
                family.samples,
            )
            for family in self._families.values()
        ]

    def _hold(self, owner: Hashable, held: _Held) -> int:
        number = next(self._numbers)
        self._held.setdefault(owner, {})[number] = held
        return number

    def _find(self, owner: Hashable, number: int) -> _Held:
        held = self._held.get(owner, {}).get(number)
        if held is None:
            raise InvalidArgument("there is no such metric any more")
        return held

    def _let_go(self, held: _Held) -> None:
        family, series = held.family, held.series
        if series is None:
            family.holders -= 1
        else:
            series.holders -= 1
            if not series.holders:
                del family.series[tuple(sorted(series.labels.items()))]
                self._series_count -= 1
        if not family.holders and not family.series:
            self._families.pop(family.name, None)


def _bounds(family: _CustomFamily, buckets: Sequence[float]) -> tuple[float, ...]:
    bounds = tuple(buckets)
    if family.kind != HISTOGRAM:
        if bounds:
            raise InvalidArgument("Unexpected buckets found.")
        return ()
    if not 0 < len(bounds) <= MAX_BUCKETS:
        raise InvalidArgument("Missing required buckets.")
    if any(not low < high for low, high in itertools.pairwise(bounds)):
        raise InvalidArgument("the bounds of buckets must increase strictly")
    return bounds
