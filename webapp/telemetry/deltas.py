"""From cumulative readings to what happened between two of them. Pure; time comes in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webapp.telemetry.readings import (
    COUNTERS,
    FOREIGN_ARM,
    ArmCounters,
    ArmKey,
    RuntimeReading,
    VersionGauges,
)

_ZERO = ArmCounters(0, dict.fromkeys(COUNTERS, 0))
_NO_GAUGES = VersionGauges(None, None)
_ARM_ORDER = {"stable": 0, "canary": 1, "default": 2, "": 3}


@dataclass(frozen=True, slots=True)
class ServingDelta:
    """What one arm of one version did. Gauges stand on one arm of a version only, so they add up."""

    key: ArmKey
    generation: int
    counts: Mapping[str, int]
    latency: Mapping[int, int]
    pending: int | None = None
    inflight: int | None = None

    @property
    def idle(self) -> bool:
        return not (self.pending or self.inflight or any(self.counts.values()))


@dataclass(frozen=True, slots=True)
class RuntimeDelta:
    """`span_ms` 0: there was nothing to compare with, so the counts are unknown, not zero."""

    span_ms: int
    servings: tuple[ServingDelta, ...]
    cpu_percent: float | None
    reading: RuntimeReading
    restarted: bool = False
    loaded: tuple[tuple[str, int], ...] = ()
    unloaded: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Baseline:
    """What a runtime's counters stood at when last seen."""

    _reading: RuntimeReading | None = None
    _read_at_ns: int = 0
    # Arms of unloaded versions stay: within an epoch they continue when the version comes back.
    _arms: dict[ArmKey, ArmCounters] = field(default_factory=dict)

    def advance(self, reading: RuntimeReading, *, read_at_ns: int) -> RuntimeDelta:
        """`read_at_ns` is the reader's own monotonic clock; it spans a restart of the runtime."""
        before, before_ns = self._reading, self._read_at_ns
        self._reading, self._read_at_ns = reading, read_at_ns
        if before is None:
            self._arms = dict(reading.arms)
            return RuntimeDelta(0, (), None, reading)
        restarted = before.epoch != reading.epoch
        if restarted:
            self._arms = {}
        span_ns = read_at_ns - before_ns if restarted else reading.at_ns - before.at_ns
        servings = self._servings(reading)
        self._arms.update(reading.arms)
        return RuntimeDelta(
            span_ms=max(round(span_ns / 1e6), 1),
            servings=servings,
            cpu_percent=None if restarted else _cpu_percent(before, reading),
            reading=reading,
            restarted=restarted,
            loaded=() if restarted else _missing(reading.versions, before.versions),
            unloaded=() if restarted else _missing(before.versions, reading.versions),
        )

    def _servings(self, reading: RuntimeReading) -> tuple[ServingDelta, ...]:
        by_version: dict[tuple[str, int], list[ArmKey]] = {v: [] for v in reading.versions}
        for key in reading.arms:
            by_version.setdefault((key.model, key.version), []).append(key)
        servings: list[ServingDelta] = []
        for (model, version), keys in by_version.items():
            gauges = reading.versions.get((model, version), _NO_GAUGES)
            keys.sort(key=lambda key: _ARM_ORDER.get(key.arm, 9))
            for index, key in enumerate(keys or [ArmKey(model, version, FOREIGN_ARM)]):
                now = reading.arms.get(key, _ZERO)
                before = self._base(key, now, reading.epoch)
                own_gauges = gauges if index == 0 else _NO_GAUGES
                servings.append(_difference(key, before, now, own_gauges))
        return tuple(servings)

    def _base(self, key: ArmKey, now: ArmCounters, epoch: str) -> ArmCounters:
        """What to subtract. A runtime without epochs shows its reset only by a counter that fell."""
        before = self._arms.get(key, _ZERO)
        fell = any(now.counts[name] < before.counts[name] for name in COUNTERS)
        return _ZERO if fell and not epoch else before


def _difference(
    key: ArmKey, before: ArmCounters, now: ArmCounters, gauges: VersionGauges
) -> ServingDelta:
    return ServingDelta(
        key=key,
        generation=now.generation,
        counts={name: max(now.counts[name] - before.counts[name], 0) for name in COUNTERS},
        latency={
            bucket: more
            for bucket, count in now.latency.items()
            if (more := count - before.latency.get(bucket, 0)) > 0
        },
        pending=gauges.pending,
        inflight=gauges.inflight,
    )


def _cpu_percent(before: RuntimeReading, now: RuntimeReading) -> float | None:
    if before.cpu_seconds is None or now.cpu_seconds is None or now.at_ns <= before.at_ns:
        return None
    percent = 100 * (now.cpu_seconds - before.cpu_seconds) / ((now.at_ns - before.at_ns) / 1e9)
    return round(max(percent, 0.0), 2)


def _missing(
    there: Mapping[tuple[str, int], Any], here: Mapping[tuple[str, int], Any]
) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(set(there) - set(here)))
