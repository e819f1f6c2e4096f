"""Figures of a benchmark: percentiles, when a point is stable, where the server saturates. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

STABLE_WINDOWS = 3
STABLE_WITHIN = 0.10
SATURATED_SHARE = 0.90


@dataclass(frozen=True, slots=True)
class Window:
    """One window of load. Latencies are of successful requests, in nanoseconds."""

    seconds: float
    latencies_ns: Sequence[int]
    errors: int
    client_cpu_seconds: float
    queue_ns: int = 0  # sums over the window, as the server counts them
    compute_ns: int = 0
    successes: int = 0
    inferences: int = 0
    executions: int = 0

    @property
    def requests_per_second(self) -> float:
        return len(self.latencies_ns) / self.seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What a point shows, from its last windows taken together."""

    requests_per_second: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    queue_ms: float | None
    compute_ms: float | None
    batch_size: float | None
    requests: int
    errors: int
    client_cpu_percent: float


def percentile(ordered: Sequence[int], quantile: float) -> float:
    """Nearest rank on ascending values: the value that at least `quantile` of them do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(math.ceil(quantile * len(ordered)) - 1, 0)]


def is_stable(windows: Sequence[Window]) -> bool:
    """Throughput and median latency of the last three windows lie within 10% of their mean."""
    last = windows[-STABLE_WINDOWS:]
    if len(last) < STABLE_WINDOWS or not all(window.latencies_ns for window in last):
        return False
    rates = [window.requests_per_second for window in last]
    medians = [percentile(sorted(window.latencies_ns), 0.5) for window in last]
    return _close(rates) and _close(medians)


def _close(values: Sequence[float]) -> bool:
    mean = sum(values) / len(values)
    return all(abs(value - mean) <= STABLE_WITHIN * mean for value in values)


def figures(windows: Sequence[Window]) -> Figures:
    last = windows[-STABLE_WINDOWS:]
    latencies = sorted(latency for window in last for latency in window.latencies_ns)
    seconds = sum(window.seconds for window in last)
    successes = sum(window.successes for window in last)
    executions = sum(window.executions for window in last)
    p50, p90, p95, p99 = (percentile(latencies, q) / 1e6 for q in (0.5, 0.9, 0.95, 0.99))
    return Figures(
        requests_per_second=len(latencies) / seconds,
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        queue_ms=_mean_ms(sum(window.queue_ns for window in last), successes),
        compute_ms=_mean_ms(sum(window.compute_ns for window in last), successes),
        batch_size=sum(w.inferences for w in last) / executions if executions else None,
        requests=len(latencies),
        errors=sum(window.errors for window in last),
        client_cpu_percent=100 * sum(window.client_cpu_seconds for window in last) / seconds,
    )


def _mean_ms(total_ns: int, count: int) -> float | None:
    return total_ns / count / 1e6 if count else None


def saturation(points: Sequence[tuple[int, float]]) -> int | None:
    """The lowest concurrency that reaches 90% of the best throughput.

    More load than that buys waiting. None with fewer than two points, or when the last rung is
    still the first to get there: the ladder ended before the server did.
    """
    if len(points) < 2:
        return None
    ordered = sorted(points)
    best = max(throughput for _, throughput in ordered)
    knee = next(c for c, throughput in ordered if throughput >= SATURATED_SHARE * best)
    return None if knee == ordered[-1][0] else knee
