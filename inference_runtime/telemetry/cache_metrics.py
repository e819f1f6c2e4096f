"""The `nv_cache_*` families: of each version that uses the response cache, and of the whole of it."""

from collections.abc import Callable, Iterable, Iterator

from inference_runtime.telemetry.cache_stats import CacheCounters, VersionCacheStats
from inference_runtime.telemetry.durations import DurationSeries
from inference_runtime.telemetry.exposition import Family, Sample, labels_text, quantiles
from inference_runtime.telemetry.snapshot import MetricsSnapshot, version_labels

CacheFamily = Family[MetricsSnapshot]


def _caching(snapshot: MetricsSnapshot) -> Iterator[tuple[dict[str, str], VersionCacheStats]]:
    for stats in snapshot.versions:
        if stats.cache is not None:
            yield version_labels(stats), stats.cache


def _count(name: str, help_: str, value: Callable[[VersionCacheStats], int]) -> CacheFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for labels, cache in _caching(snapshot):
            yield "", labels_text(labels), value(cache)

    return Family(name, "counter", help_, samples)


def _duration(name: str, help_: str, value_ns: Callable[[VersionCacheStats], int]) -> CacheFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        if snapshot.options.counter_latencies:
            for labels, cache in _caching(snapshot):
                yield "", labels_text(labels), value_ns(cache) // 1000

    return Family(name, "counter", help_, samples)


def _summary(
    name: str, help_: str, series: Callable[[VersionCacheStats], DurationSeries]
) -> CacheFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for labels, cache in _caching(snapshot):
            if cache.summaries:
                yield from quantiles(labels, snapshot.options.quantiles, series(cache))

    return Family(name, "summary", help_, samples)


def _whole(name: str, help_: str, value: Callable[[CacheCounters], float]) -> CacheFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        if snapshot.cache is not None:
            yield "", "", value(snapshot.cache)

    return Family(name, "gauge", help_, samples)


CACHE_FAMILIES: tuple[CacheFamily, ...] = (
    _count(
        "nv_cache_num_hits_per_model",
        "Number of cache hits per model",
        lambda cache: cache.hits,
    ),
    _count(
        "nv_cache_num_misses_per_model",
        "Number of cache misses per model",
        lambda cache: cache.misses,
    ),
    _duration(
        "nv_cache_hit_duration_per_model",
        "Total cache hit duration per model, in microseconds",
        lambda cache: cache.hit_ns,
    ),
    _duration(
        "nv_cache_miss_duration_per_model",
        "Total cache miss duration per model, in microseconds",
        lambda cache: cache.miss_ns,
    ),
    _summary(
        "nv_cache_hit_summary_per_model",
        "Summary of cache hit duration per model, in microseconds",
        lambda cache: cache.hit,
    ),
    _summary(
        "nv_cache_miss_summary_per_model",
        "Summary of cache miss duration per model, in microseconds",
        lambda cache: cache.miss,
    ),
    _whole(
        "nv_cache_util",
        "Cache utilization [0.0 - 1.0]",
        lambda cache: cache.used_bytes / cache.size_bytes,
    ),
    _whole(
        "nv_cache_num_entries",
        "Number of responses stored in the response cache",
        lambda cache: cache.entries,
    ),
    _whole("nv_cache_num_hits", "Number of cache hits", lambda cache: cache.hits),
    _whole("nv_cache_num_misses", "Number of cache misses", lambda cache: cache.misses),
    _whole("nv_cache_num_lookups", "Number of cache lookups", lambda cache: cache.lookups),
    _whole("nv_cache_num_evictions", "Number of cache evictions", lambda cache: cache.evictions),
    _whole(
        "nv_cache_lookup_duration",
        "Total duration of cache lookups, in microseconds",
        lambda cache: cache.lookup_ns // 1000,
    ),
    _whole(
        "nv_cache_insertion_duration",
        "Total duration of cache insertions, in microseconds",
        lambda cache: cache.insertion_ns // 1000,
    ),
)
