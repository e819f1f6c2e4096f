"""What both arms did: counts that add up, second by second, and windows of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from inference_runtime.spec.latency import merge, percentile_ns
from webapp.rollouts.choices import Guardrail


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one arm over some time. Errors are server faults and timeouts together."""

    requests: int = 0
    errors: int = 0
    rejections: int = 0
    client_faults: int = 0
    inferences: int = 0
    executions: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    latency: Mapping[int, int] = field(default_factory=dict)  # successful requests

    def __add__(self, other: "Tally") -> "Tally":
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Tally(**sums, latency=merge(self.latency, other.latency))

    @property
    def successes(self) -> int:
        return sum(self.latency.values())

    def bad(self, guardrail: Guardrail, slo_bucket: int | None = None) -> int:
        if guardrail is Guardrail.LATENCY:
            if slo_bucket is None:
                return 0
            return sum(count for bucket, count in self.latency.items() if bucket > slo_bucket)
        return int(getattr(self, guardrail.value))

    def base(self, guardrail: Guardrail) -> int:
        """Out of how many the bad ones are counted. Only answered requests have a latency."""
        return self.successes if guardrail is Guardrail.LATENCY else self.requests

    def percentile_ms(self, quantile: float) -> float | None:
        value = percentile_ns(self.latency, quantile)
        return None if value is None else value / 1e6

    def mean_ms(self, name: str) -> float | None:
        """`queue` or `compute` time of an answered request, on average."""
        answered = self.successes
        return getattr(self, f"{name}_ns") / answered / 1e6 if answered else None

    def to_json(self) -> dict[str, Any]:
        row = {name: getattr(self, name) for name in _COUNTS}
        return {**row, "latency": {str(bucket): n for bucket, n in sorted(self.latency.items())}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Tally":
        latency = {int(bucket): count for bucket, count in row.get("latency", {}).items()}
        return cls(**{name: row.get(name, 0) for name in _COUNTS}, latency=latency)


_COUNTS = tuple(f.name for f in fields(Tally) if f.name != "latency")


@dataclass(frozen=True, slots=True)
class Arms:
    """Canary and stable side by side over the same time."""

    canary: Tally = field(default_factory=Tally)
    stable: Tally = field(default_factory=Tally)

    def __add__(self, other: "Arms") -> "Arms":
        return Arms(self.canary + other.canary, self.stable + other.stable)

    @property
    def requests(self) -> int:
        return self.canary.requests + self.stable.requests

    def canary_share(self) -> float | None:
        return self.canary.requests / self.requests if self.requests else None

    def to_json(self) -> dict[str, Any]:
        return {"canary": self.canary.to_json(), "stable": self.stable.to_json()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Arms":
        return cls(Tally.from_json(row.get("canary", {})), Tally.from_json(row.get("stable", {})))


@dataclass(frozen=True, slots=True)
class Moment:
    """One interval of one runtime: what each arm did, under which share of the canary."""

    arms: Arms
    at: float  # seconds since the epoch, end of the interval
    weight: float | None  # the canary's configured share then; None: not known, no evidence
    settled: bool = True  # False: part of the interval may still have used another share
    even: bool = (
        True  # False: the arms were loaded by more than the split, so latency cannot be compared
    )


@dataclass(frozen=True, slots=True)
class Window:
    """Thirty seconds of both arms, for limits that ask for several bad windows in a row."""

    started_at: float
    arms: Arms = field(default_factory=Arms)

    def to_json(self) -> dict[str, Any]:
        return {"started_at": self.started_at, **self.arms.to_json()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Window":
        return cls(row["started_at"], Arms.from_json(row))


WINDOW_SECONDS = 30
WINDOWS_KEPT = 3


def windows_with(windows: tuple[Window, ...], moment: Moment) -> tuple[Window, ...]:
    """The last three closed windows and the open one, with the moment added to the open one."""
    if windows and moment.at - windows[-1].started_at < WINDOW_SECONDS:
        opened = windows[-1]
        return (*windows[:-1], Window(opened.started_at, opened.arms + moment.arms))
    return (*windows, Window(moment.at, moment.arms))[-(WINDOWS_KEPT + 1) :]
