"""What the response cache counts: for the whole of it, and for each loaded version that uses it."""

from dataclasses import dataclass, field

from inference_runtime.telemetry.durations import DurationSeries


@dataclass(slots=True)
class CacheCounters:
    """Of the whole cache, since the process started; the three sizes are what is true now."""

    size_bytes: int
    used_bytes: int = 0
    entries: int = 0
    lookups: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    lookup_ns: int = 0
    insertion_ns: int = 0


@dataclass(slots=True)
class VersionCacheStats:
    """Answered requests of one version that were looked up; a miss takes its look-up and its insertion."""

    summaries: bool = False  # each request costs a bucket search more
    hits: int = 0
    hit_ns: int = 0
    misses: int = 0
    miss_ns: int = 0
    hit: DurationSeries = field(default_factory=DurationSeries)
    miss: DurationSeries = field(default_factory=DurationSeries)

    def count_hit(self, duration_ns: int) -> None:
        self.hits += 1
        self.hit_ns += duration_ns
        if self.summaries:
            self.hit.add(duration_ns)

    def count_miss(self, duration_ns: int) -> None:
        self.misses += 1
        self.miss_ns += duration_ns
        if self.summaries:
            self.miss.add(duration_ns)
