"""One tick of all runtimes → what each live topic is told, small and keyed like the charts. Pure.

Keys: `metric` for all of a scope, `metric|model|version`, in a model's frames also `metric@version`
over the requests that the traffic table placed, and for a runtime `metric|runtime` or `metric|runtime|device`. A key that is left out has the metric's idle value.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from webapp.telemetry.deltas import RuntimeDelta, ServingDelta
from webapp.telemetry.totals import METRICS, Totals, rounded, value_of

GOLDEN_TICKS = 10
ROOM = 11_000  # characters of values in one frame, which must stay under 16 KiB as a whole
_VALUE_ROOM = 14  # quotes, colon, comma and a number of four digits
_REASON_ROOM = 120
RECENT_TICKS = 900  # for so long a model that is gone is still told to be at rest
SCOPE_METRICS = (
    "requests_per_second", "error_share", "failure_share", "rejection_share", "timeout_share",
    "client_fault_share", "cancellation_share", "pending", "inflight",
    "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "batch_size", "queue_ms", "compute_ms",
)  # fmt: skip
VERSION_METRICS = ("requests_per_second", "pending", "inflight", "batch_size")
PLACED_METRICS = (
    "requests_per_second", "error_share", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms",
    "queue_ms", "compute_ms",
)  # fmt: skip
GOLDEN_METRICS = (
    "requests_per_second", "error_share", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms",
    "pending", "inflight",
)  # fmt: skip
GPU_METRICS = {
    "gpu_utilization": "utilization",
    "gpu_memory_bytes": "memory_used_bytes",
    "gpu_power_watts": "power_watts",
    "gpu_temperature_celsius": "temperature_celsius",
}
Version = tuple[str, int]
Values = dict[str, float | None]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class RuntimeView:
    """A runtime at a tick. `delta` None: it did not answer, `reason` says why and `since` since when."""

    name: str
    delta: RuntimeDelta | None
    reason: str = ""
    since: datetime | None = None

    @property
    def known(self) -> bool:
        return self.delta is not None and self.delta.span_ms > 0

    def state(self) -> dict[str, Any]:
        if self.delta is not None:
            return {"known": self.known}
        since = self.since.isoformat() if self.since else None
        return {"known": False, "reason": self.reason[:_REASON_ROOM], "since": since}


@dataclass(slots=True)
class Scope:
    """What is added up for one audience: the fleet, a runtime, a model, a model on a runtime."""

    known: bool = False
    everything: Totals = field(default_factory=Totals)
    versions: dict[Version, Totals] = field(default_factory=dict)
    placed: dict[int, Totals] = field(default_factory=dict)  # by version, of one model

    def add(self, serving: ServingDelta, span_ms: float, *, with_placed: bool) -> None:
        key = serving.key
        _add(self.everything, serving, span_ms)
        _add(self.versions.setdefault((key.model, key.version), Totals()), serving, span_ms)
        if with_placed and key.arm:
            _add(self.placed.setdefault(key.version, Totals()), serving, span_ms)

    def values(self, devices: Values, *, room: int) -> tuple[Values, bool]:
        """What differs from rest, as far as there is room (characters), and whether all fitted."""
        by_device = ({key: value} for key, value in devices.items())
        if not self.versions:
            return _fitting(by_device, room)
        values = _told("", self.everything, SCOPE_METRICS)
        partial = False
        for groups, part in (
            (self._by_placed_version(), 0.4), (self._by_version(), 0.7), (by_device, 1.0)
        ):  # fmt: skip
            fitting, left = _fitting(groups, part * (room - _room_of(values)))
            values |= fitting
            partial = partial or left
        return values, partial

    def _by_version(self) -> Iterable[Values]:
        for (model, version), totals in _busiest_first(self.versions):
            yield _told(f"|{model}|{version}", totals, VERSION_METRICS)

    def _by_placed_version(self) -> Iterable[Values]:
        placed = sum(totals.requests for totals in self.placed.values())
        for version, totals in _busiest_first(self.placed):
            told = _told(f"@{version}", totals, PLACED_METRICS)
            if placed:
                told[f"observed_share@{version}"] = round(totals.requests / placed, 4)
            yield told


def _busiest_first(totals: Mapping[Key, Totals]) -> list[tuple[Key, Totals]]:
    return sorted(totals.items(), key=lambda item: -item[1].rate)


def _room_of(values: Values) -> int:
    return sum(len(key) + _VALUE_ROOM for key in values)


def _fitting(groups: Iterable[Values], room: float) -> tuple[Values, bool]:
    """The first groups that fit, whole, and whether one did not."""
    values: Values = {}
    for group in groups:
        room -= _room_of(group)
        if room < 0:
            return values, True
        values |= group
    return values, False


def _add(totals: Totals, serving: ServingDelta, span_ms: float) -> None:
    totals.add_counts(serving.counts, serving.latency, span_ms=span_ms)
    totals.add_gauges(serving.pending, serving.inflight)


def _told(suffix: str, totals: Totals, metrics: Iterable[str]) -> Values:
    """None is told only where leaving the key out would mean something else."""
    values = {metric: rounded(value_of(metric, totals)) for metric in metrics}
    return {
        f"{metric}{suffix}": value
        for metric, value in values.items()
        if value != METRICS[metric].idle
    }


class FrameBuilder:
    """Remembers the last ticks of each scope, for numbers that are calmer than one second."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[Totals]] = {}
        self._seen: dict[str, int] = {}  # model → the tick it was last loaded at
        self._homes: dict[str, set[str]] = {}  # model → runtimes that had it when last heard of
        self._resting: set[str] = set()  # model topics last told to be at rest
        self._tick = 0

    def frames(
        self, *, at: datetime, runtimes: Sequence[RuntimeView], marks: Sequence[Mapping[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Topic → data, for the fleet, every runtime, and every model that does something.

        A model at rest is told so once; after that the fleet's frames say that it still is.
        """
        self._tick += 1
        self._remember(runtimes)
        topics = self._topics(runtimes)
        devices = {view.name: device_values(view) for view in runtimes}
        states = {view.name: view.state() for view in runtimes}
        frames: dict[str, dict[str, Any]] = {}
        for topic, parts in topics.items():
            room = ROOM // len(parts)
            told = {
                name: self._told(
                    f"{topic}/{name}", scope, self._devices(topic, name, devices), room
                )
                for name, scope in parts.items()
            }
            concerning = [mark for mark in marks if _concerns(mark, topic)]
            if self._is_old_news(topic, told[""], concerning):
                continue
            frame = {"at": round(at.timestamp() * 1000), "runtimes": states, "marks": concerning}
            frames[topic] = {"telemetry": {**frame, **told.pop(""), "scopes": told}}
        self._forget(topics)
        return frames

    def _remember(self, runtimes: Sequence[RuntimeView]) -> None:
        for view in runtimes:
            if view.delta is None:
                continue
            loaded = {serving.key.model for serving in view.delta.servings}
            for model in loaded:
                self._seen[model] = self._tick
                self._homes.setdefault(model, set()).add(view.name)
            for model in self._homes.keys() - loaded:
                self._homes[model].discard(view.name)

    def _topics(self, runtimes: Sequence[RuntimeView]) -> dict[str, dict[str, Scope]]:
        """Topic → runtime name ("" for all of them) → scope."""
        any_known = any(view.known for view in runtimes)
        fleet = Scope(known=any_known)
        topics: dict[str, dict[str, Scope]] = {"fleet": {"": fleet}}
        for model in self._seen:
            # Without a home the model is at rest, which is known; with one, its runtime says.
            at_rest = any_known and not self._homes.get(model)
            topics[f"model:{model}"] = {"": Scope(known=at_rest)}
        for view in runtimes:
            own = Scope(known=view.known)
            topics[f"runtime:{view.name}"] = {"": own}
            for serving in view.delta.servings if view.delta else ():
                parts = topics[f"model:{serving.key.model}"]
                parts[""].known = parts[""].known or view.known
                part = parts.setdefault(view.name, Scope(known=view.known))
                span_ms = view.delta.span_ms if view.delta else 0
                for scope, with_placed in (
                    (fleet, False), (own, False), (parts[""], True), (part, True)
                ):  # fmt: skip
                    scope.add(serving, span_ms, with_placed=with_placed)
        return topics

    def _is_old_news(self, topic: str, told: Mapping[str, Any], marks: Sequence[Any]) -> bool:
        if not topic.startswith("model:"):
            return False
        if told["golden"] != resting(known=True) or marks:
            self._resting.discard(topic)
            return False
        was_told = topic in self._resting
        self._resting.add(topic)
        return was_told

    def _devices(self, topic: str, part: str, devices: Mapping[str, Values]) -> Values:
        """Of the runtimes that the part of the topic is about."""
        kind, _, name = topic.partition(":")
        if part or kind == "runtime":
            return devices.get(part or name, {})
        homes = self._homes.get(name, set()) if kind == "model" else devices.keys()
        return {key: value for home in homes for key, value in devices.get(home, {}).items()}

    def _told(self, name: str, scope: Scope, devices: Values, room: int) -> dict[str, Any]:
        values, partial = scope.values(devices, room=room)
        golden = self._golden(name, scope)
        return {"known": scope.known, "values": values, "partial": partial, "golden": golden}

    def _golden(self, scope_name: str, scope: Scope) -> Values:
        recent = self._recent.setdefault(scope_name, deque(maxlen=GOLDEN_TICKS))
        if not scope.known:
            recent.clear()
            return resting(known=False)
        recent.append(scope.everything)
        whole = Totals()
        for totals in recent:
            whole.merge(totals)
        whole.rate = sum(totals.rate for totals in recent) / len(recent)
        whole.pending, whole.inflight = scope.everything.pending, scope.everything.inflight
        if not scope.versions:
            whole.pending = whole.inflight = 0
        return {metric: rounded(value_of(metric, whole)) for metric in GOLDEN_METRICS}

    def _forget(self, topics: Mapping[str, Mapping[str, Scope]]) -> None:
        self._seen = {m: t for m, t in self._seen.items() if self._tick - t < RECENT_TICKS}
        self._resting &= topics.keys()
        self._homes = {model: homes for model, homes in self._homes.items() if model in self._seen}
        alive = {f"{topic}/{name}" for topic, parts in topics.items() for name in parts}
        self._recent = {name: ticks for name, ticks in self._recent.items() if name in alive}


def resting(*, known: bool) -> Values:
    """The golden numbers of what does nothing, or of what nothing is known of."""
    return {metric: METRICS[metric].idle if known else None for metric in GOLDEN_METRICS}


def device_values(view: RuntimeView) -> Values:
    """CPU, memory and GPUs of a runtime, as far as it tells."""
    if view.delta is None:
        return {}
    reading = view.delta.reading
    values: Values = {
        f"cpu_percent|{view.name}": view.delta.cpu_percent,
        f"memory_bytes|{view.name}": reading.memory_bytes,
    }
    for gpu in reading.gpus:
        for metric, name in GPU_METRICS.items():
            values[f"{metric}|{view.name}|{gpu.get('uuid')}"] = gpu.get(name)
    return {key: value for key, value in values.items() if value is not None}


def _concerns(mark: Mapping[str, Any], topic: str) -> bool:
    kind, _, name = topic.partition(":")
    if kind == "model":
        return mark["model"] in ("", name)
    if kind == "runtime":
        return mark["runtime"] in ("", name)
    return True
