"""What a reading of the metrics is made from: the counters of every version and the machine's gauges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inference_runtime.spec.model_identity import bare_name, namespace_of
from inference_runtime.telemetry.arm_stats import ArmStats
from inference_runtime.telemetry.cache_stats import CacheCounters
from inference_runtime.telemetry.gpu import GpuSample
from inference_runtime.telemetry.host import HostReading, ProcessReading
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.stats import DeviceStats, VersionStats


@dataclass(frozen=True, slots=True)
class TrafficShare:
    """One arm of an applied traffic table."""

    model: str
    version: int
    arm: str
    share: float


@dataclass(frozen=True, slots=True)
class SlotPool:
    """A resource that the rate limiter shares out, on one device or for the whole server."""

    name: str
    device: str
    capacity: int
    in_use: int
    waiting: int


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    options: MetricsOptions
    versions: tuple[VersionStats, ...]
    arms: tuple[tuple[str, int, ArmStats], ...]
    process: ProcessReading
    host: HostReading | None = None
    gpus: tuple[GpuSample, ...] = ()
    traffic: Iterable[TrafficShare] = field(default=())
    # Requests refused before there was a version to count them at, by outcome.
    unrouted: Mapping[str, int] = field(default_factory=dict)
    slots: Sequence[SlotPool] = ()
    cache: CacheCounters | None = None  # None: the server has no response cache

    def devices(self) -> Iterator[tuple[Mapping[str, str], DeviceStats]]:
        """Every set of counters with its labels: the model's own, then one per GPU it runs on."""
        for stats in self.versions:
            labels = version_labels(stats)
            for device in stats.devices.values():
                yield (
                    {**labels, "gpu_uuid": device.gpu_uuid} if device.gpu_uuid else labels,
                    device,
                )


def version_labels(stats: VersionStats) -> dict[str, str]:
    tags = {f"_{key}": value for key, value in stats.tags.items()}
    return {**model_labels(stats.model), "version": str(stats.version), **tags}


def arm_labels(model: str, version: int, arm: str) -> dict[str, str]:
    return {**model_labels(model), "version": str(version), "arm": arm}


def model_labels(identity: str) -> dict[str, str]:
    namespace = namespace_of(identity)
    name = {"model": bare_name(identity)}
    return {**name, "namespace": namespace} if namespace else name
