"""Mergeable latency histograms: fixed logarithmic buckets, about 5% relative error.

Bucket i holds latencies in (bound(i-1), bound(i)] with bound(i) = 10 µs × 1.1^i. Two histograms
merge by adding counts, so percentiles over replicas or minutes are right; averages of percentiles
never are.
"""

import math
from collections.abc import Mapping

FIRST_BOUND_NS = 10_000
GROWTH = 1.1
BUCKETS = 180  # up to 10 µs × 1.1^179 ≈ 256 s; the last bucket takes everything above
_LOG_GROWTH = math.log(GROWTH)
BOUNDS_NS: tuple[int, ...] = tuple(round(FIRST_BOUND_NS * GROWTH**i) for i in range(BUCKETS))


def bucket_of(latency_ns: int) -> int:
    if latency_ns <= FIRST_BOUND_NS:
        return 0
    return min(math.ceil(math.log(latency_ns / FIRST_BOUND_NS) / _LOG_GROWTH - 1e-9), BUCKETS - 1)


def percentile_ns(counts: Mapping[int, int], quantile: float) -> float | None:
    """The latency below which `quantile` (0..1) of the requests lie; None without requests.

    Inside a bucket the value is interpolated, so that a chart does not move in jumps of 10%.
    """
    total = sum(counts.values())
    if total == 0:
        return None
    rank = quantile * total
    seen = 0
    for bucket in sorted(counts):
        count = counts[bucket]
        if seen + count >= rank:
            low = BOUNDS_NS[bucket - 1] if bucket else 0
            part = max(rank - seen, 0.0) / count
            return low + (BOUNDS_NS[bucket] - low) * part
        seen += count
    return float(BOUNDS_NS[-1])


def merge(*histograms: Mapping[int, int]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            merged[bucket] = merged.get(bucket, 0) + count
    return merged
