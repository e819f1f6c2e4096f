"""Counts of an interval added up, and every number we draw as a formula over them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inference_runtime.spec.latency import merge, percentile_ns
from webapp.telemetry.readings import COUNTERS

NO_HISTOGRAM = "the runtime tells no latency histogram, so there are no percentiles"


class Counted(Protocol):
    """A serving sample, from the table or not yet in it."""

    @property
    def requests(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def client_faults(self) -> int: ...
    @property
    def rejections(self) -> int: ...
    @property
    def timeouts(self) -> int: ...
    @property
    def cancellations(self) -> int: ...
    @property
    def inferences(self) -> int: ...
    @property
    def executions(self) -> int: ...
    @property
    def queue_ns(self) -> int: ...
    @property
    def compute_ns(self) -> int: ...
    @property
    def pending(self) -> int | None: ...
    @property
    def inflight(self) -> int | None: ...
    @property
    def latency(self) -> Mapping[str, int]: ...


@dataclass(slots=True)
class Totals:
    """Counts add; gauges of the same moment add; `rate` adds over runtimes, each with its own span."""

    requests: int = 0
    failures: int = 0
    client_faults: int = 0
    rejections: int = 0
    timeouts: int = 0
    cancellations: int = 0
    inferences: int = 0
    executions: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    pending: float | None = None
    inflight: float | None = None
    rate: float = 0.0
    latency: dict[int, int] = field(default_factory=dict)

    def add(self, sample: Counted, *, span_ms: float, with_latency: bool = True) -> None:
        """`span_ms`: the time in which the runtime was seen, that the rate is to be over."""
        self.requests += sample.requests
        self.failures += sample.failures
        self.client_faults += sample.client_faults
        self.rejections += sample.rejections
        self.timeouts += sample.timeouts
        self.cancellations += sample.cancellations
        self.inferences += sample.inferences
        self.executions += sample.executions
        self.queue_ns += sample.queue_ns
        self.compute_ns += sample.compute_ns
        if span_ms > 0:
            self.rate += 1000 * sample.requests / span_ms
        if with_latency:
            latency = self.latency
            for bucket, count in sample.latency.items():
                key = int(bucket)
                latency[key] = latency.get(key, 0) + count

    def add_counts(
        self, counts: Mapping[str, int], latency: Mapping[int, int], *, span_ms: float
    ) -> None:
        """`add` for what is not a sample yet: counts by name."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + counts[name])
        if span_ms > 0:
            self.rate += 1000 * counts["requests"] / span_ms
        if latency:
            self.latency = merge(self.latency, latency)

    def add_gauges(self, pending: float | None, inflight: float | None) -> None:
        if pending is not None:
            self.pending = (self.pending or 0) + pending
        if inflight is not None:
            self.inflight = (self.inflight or 0) + inflight

    def merge(self, other: "Totals") -> None:
        """Adds counts and latencies; gauges and the rate are of a moment and stay."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency = merge(self.latency, other.latency)

    @property
    def successes(self) -> int:
        ended_badly = self.failures + self.client_faults + self.rejections + self.timeouts
        return max(self.requests - ended_badly - self.cancellations, 0)

    @property
    def errors(self) -> int:
        return self.failures + self.rejections + self.timeouts


def _share(part: Callable[[Totals], int]) -> Callable[[Totals], float | None]:
    return lambda totals: part(totals) / totals.requests if totals.requests else None


def _percentile(quantile: float) -> Callable[[Totals], float | None]:
    def value(totals: Totals) -> float | None:
        found = percentile_ns(totals.latency, quantile)
        return None if found is None else found / 1e6

    return value


def _mean_ms(total_ns: Callable[[Totals], int]) -> Callable[[Totals], float | None]:
    return lambda totals: total_ns(totals) / totals.successes / 1e6 if totals.successes else None


@dataclass(frozen=True, slots=True)
class Metric:
    """`idle`: the value while nothing happens; None where nothing can be said then."""

    title: str
    unit: str  # "per_second", "share", "ms", "count"
    formula: str
    value: Callable[[Totals], float | None]
    idle: float | None = None


METRICS: dict[str, Metric] = {
    "requests_per_second": Metric(
        "Requests", "per_second", "Δ requests settled, all ends ÷ seconds",
        lambda totals: totals.rate, idle=0.0,
    ),
    "error_share": Metric(
        "Errors", "share", "(server faults + refused + timed out) ÷ requests",
        _share(lambda totals: totals.errors),
    ),
    "failure_share": Metric(
        "Server faults", "share", "Δ server faults ÷ Δ requests", _share(lambda t: t.failures)
    ),
    "rejection_share": Metric(
        "Refused", "share", "Δ refused (queue full, draining) ÷ Δ requests",
        _share(lambda t: t.rejections),
    ),
    "timeout_share": Metric(
        "Timed out", "share", "Δ timed out ÷ Δ requests", _share(lambda t: t.timeouts)
    ),
    "client_fault_share": Metric(
        "Client faults", "share", "Δ client faults (4xx) ÷ Δ requests",
        _share(lambda t: t.client_faults),
    ),
    "cancellation_share": Metric(
        "Cancelled", "share", "Δ cancelled by the client ÷ Δ requests",
        _share(lambda t: t.cancellations),
    ),
    "pending": Metric(
        "Queue depth", "count", "requests waiting for an instance; the peak where seconds are merged",
        lambda totals: totals.pending, idle=0.0,
    ),
    "inflight": Metric(
        "In flight", "count", "requests waiting or being executed; the peak where seconds are merged",
        lambda totals: totals.inflight, idle=0.0,
    ),
    "latency_p50_ms": Metric(
        "p50", "ms", "median of the merged latency histogram, successful requests",
        _percentile(0.50),
    ),
    "latency_p95_ms": Metric(
        "p95", "ms", "95th percentile of the merged latency histogram, successful requests",
        _percentile(0.95),
    ),
    "latency_p99_ms": Metric(
        "p99", "ms", "99th percentile of the merged latency histogram, successful requests",
        _percentile(0.99),
    ),
    "batch_size": Metric(
        "Realised batch", "count", "Δ inferences ÷ Δ executions",
        lambda totals: totals.inferences / totals.executions if totals.executions else None,
    ),
    "queue_ms": Metric(
        "Queue", "ms", "Δ queue time ÷ Δ successful requests", _mean_ms(lambda t: t.queue_ns)
    ),
    "compute_ms": Metric(
        "Compute", "ms", "Δ compute time ÷ Δ successful requests", _mean_ms(lambda t: t.compute_ns)
    ),
}  # fmt: skip


def value_of(metric: str, totals: Totals | None) -> float | None:
    """The metric, from nothing at all when the interval is known to be idle."""
    return METRICS[metric].idle if totals is None else METRICS[metric].value(totals)


def rounded(value: float | None) -> float | None:
    """Four significant digits: what a chart can show, at a third of the bytes."""
    return None if value is None else float(f"{value:.4g}")
