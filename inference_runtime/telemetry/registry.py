"""All statistics of the process, by model and version: what is served now, and the arms that outlive it.

A load prepares its counters, publishes them when the version is ready and retires them when it is gone.
During a reload both loads of one version number have counters; readers see the published one, while the
arms are the same objects for both, so nothing an arm has counted is lost or set back by it. What the arms of
an unloaded version have counted is kept as well, of the last thousand or so.
"""

import datetime as dt
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final

from inference_runtime.spec.config_rules import CUSTOMIZABLE_FAMILY
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.telemetry.arm_stats import ArmStats
from inference_runtime.telemetry.durations import FIRST_RESPONSE_BOUNDS_MS, DurationDetail
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.stats import StatsSources, VersionStats

VersionKey = tuple[str, int]
# Whoever publishes versions without end must not fill the memory, and readers have seen by then what the
# forgotten ones counted last.
UNLOADED_LIMIT: Final = 1024


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class StatsRegistry:
    def __init__(
        self,
        options: MetricsOptions | None = None,
        *,
        gpu_uuid: Callable[[int], str] = str,
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        self.options = options or MetricsOptions()
        self.epoch = secrets.token_hex(8)  # another epoch: every cumulative number began again
        self.started_at = dt.datetime.now(dt.UTC)
        self._sources = StatsSources(wall_ms=wall_ms, gpu_uuid=gpu_uuid)
        self._arms: dict[VersionKey, dict[str, ArmStats]] = {}
        self._published: dict[VersionKey, VersionStats] = {}
        self._unloaded: dict[VersionKey, None] = {}  # in the order in which they went

    def prepare(self, *, model: str, version: int, config: ModelConfig) -> VersionStats:
        """Fresh counters for a load that has begun; nobody sees them until they are published."""
        return VersionStats(
            model=model,
            version=version,
            arms=self._arms.get((model, version), {}),
            sources=self._sources,
            tags=config.metric_tags,
            detail=self._detail(config),
        )

    def publish(self, stats: VersionStats, *, load_seconds: float = 0.0) -> None:
        stats.load_seconds = load_seconds
        key = stats.model, stats.version
        # Another load of the version may have been published since these counters were prepared.
        stats.arms = self._arms.setdefault(key, stats.arms)
        self._unloaded.pop(key, None)
        self._published[key] = stats

    def retire(self, stats: VersionStats) -> None:
        """Safe for counters that were never published, or that a newer load has replaced."""
        key = stats.model, stats.version
        if self._published.get(key) is not stats:
            return
        del self._published[key]
        self._unloaded[key] = None
        if len(self._unloaded) > UNLOADED_LIMIT:
            oldest = next(iter(self._unloaded))
            del self._unloaded[oldest], self._arms[oldest]

    def published(self) -> list[VersionStats]:
        """By model name, then version."""
        return [self._published[key] for key in sorted(self._published)]

    def find(self, model: str, version: int) -> VersionStats | None:
        return self._published.get((model, version))

    def versions(self) -> Iterator[tuple[VersionKey, dict[str, ArmStats], VersionStats | None]]:
        """Every version that is or was served, with its arms and, while it is served, its counters."""
        for key in sorted(self._arms):
            yield key, self._arms[key], self._published.get(key)

    def _detail(self, config: ModelConfig) -> DurationDetail | None:
        options = self.options
        if not (options.histogram_latencies or options.summary_latencies):
            return None
        return DurationDetail(
            first_response_bounds_ms=_bounds(config) if options.histogram_latencies else None,
            summaries=options.summary_latencies,
        )


def _bounds(config: ModelConfig) -> tuple[float, ...]:
    """The config's own buckets of the first-response histogram, if it has any."""
    for control in config.proto.model_metrics.metric_control:
        if control.metric_identifier.family == CUSTOMIZABLE_FAMILY:
            return tuple(control.histogram_options.buckets)
    return FIRST_RESPONSE_BOUNDS_MS
