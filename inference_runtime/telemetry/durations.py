"""The phases of an execution, and what `--metrics-config` adds: first-response histogram and summaries.

The additions are off by default, because each costs a bucket search per request. Quantiles come from
the log-bucketed histograms of `spec.latency`, over the life of the loaded version, with their 5% error.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from inference_runtime.spec.latency import BOUNDS_NS, BUCKETS, percentile_ns
from inference_runtime.spec.messages import InferRequest

FIRST_RESPONSE_BOUNDS_MS: tuple[float, ...] = (100.0, 500.0, 2000.0, 5000.0)
_INNER_BOUNDS_NS = BOUNDS_NS[:-1]  # the last bucket takes everything above


class ExecutionTimes(NamedTuple):
    """Monotonic moments of one execution; equal ones mean that a phase was not reached."""

    started_ns: int
    gathered_ns: int
    inferred_ns: int
    finished_ns: int

    @property
    def compute_ns(self) -> int:
        return self.finished_ns - self.started_ns


class DurationSeries:
    """Count, sum and quantiles of one kind of duration."""

    __slots__ = ("buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.count = 0
        self.total_ns = 0

    def add(self, duration_ns: int, times: int = 1) -> None:
        self.count += times
        self.total_ns += duration_ns * times
        self.buckets[bisect_left(_INNER_BOUNDS_NS, duration_ns)] += times

    def quantile_ns(self, quantile: float) -> float | None:
        return percentile_ns(
            {bucket: count for bucket, count in enumerate(self.buckets) if count}, quantile
        )


class FirstResponses:
    """Requests by whole milliseconds to their first response; `counts` ends with the ones above all bounds."""

    __slots__ = ("bounds_ms", "counts", "total_ms")

    def __init__(self, bounds_ms: Sequence[float]) -> None:
        self.bounds_ms = tuple(bounds_ms)
        self.counts = [0] * (len(self.bounds_ms) + 1)
        self.total_ms = 0

    def add(self, duration_ns: int) -> None:
        duration_ms = duration_ns // 1_000_000
        self.total_ms += duration_ms
        self.counts[bisect_left(self.bounds_ms, duration_ms)] += 1


class DurationDetail:
    def __init__(
        self, *, first_response_bounds_ms: Sequence[float] | None, summaries: bool
    ) -> None:
        self.first_responses = (
            FirstResponses(first_response_bounds_ms)
            if first_response_bounds_ms is not None
            else None
        )
        self.summaries = summaries
        self.request = DurationSeries()
        self.queue = DurationSeries()
        self.compute_input = DurationSeries()
        self.compute_infer = DurationSeries()
        self.compute_output = DurationSeries()

    def succeeded(
        self, times: ExecutionTimes, requests: Sequence[InferRequest], now_ns: int
    ) -> None:
        if self.first_responses is not None:
            for request in requests:
                self._first_response(request, now_ns)
        if not self.summaries:
            return
        for request in requests:
            self.request.add(now_ns - request.received_ns)
            self.queue.add(times.started_ns - request.received_ns)
        count = len(requests)
        self.compute_input.add(times.gathered_ns - times.started_ns, count)
        self.compute_infer.add(times.inferred_ns - times.gathered_ns, count)
        self.compute_output.add(times.finished_ns - times.inferred_ns, count)

    def answered_from_cache(self, request: InferRequest, queue_ns: int, now_ns: int) -> None:
        if self.first_responses is not None:
            self.first_responses.add(now_ns - request.received_ns)
        if self.summaries:
            self.request.add(now_ns - request.received_ns)
            self.queue.add(queue_ns)

    def failed(self, request: InferRequest, now_ns: int) -> None:
        self._first_response(request, now_ns)

    def _first_response(self, request: InferRequest, now_ns: int) -> None:
        if self.first_responses is None or (request.responses and not request.first_response_ns):
            return  # its end came by itself, and there was no response before
        first_ns = request.first_response_ns or now_ns
        self.first_responses.add(first_ns - request.received_ns)
