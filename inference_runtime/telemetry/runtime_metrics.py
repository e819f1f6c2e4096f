"""The `runtime_*` families: what Triton's do not tell of arms, batches, instances and this process."""

from collections.abc import Callable, Iterable

from inference_runtime.spec.latency import BOUNDS_NS
from inference_runtime.telemetry.arm_stats import ArmStats
from inference_runtime.telemetry.exposition import Family, Sample, histogram, labels_text
from inference_runtime.telemetry.snapshot import (
    MetricsSnapshot,
    SlotPool,
    arm_labels,
    version_labels,
)
from inference_runtime.telemetry.stats import Gauges

RuntimeFamily = Family[MetricsSnapshot]

_OUTCOMES: dict[str, Callable[[ArmStats], int]] = {
    "success": lambda arm: arm.successes,
    "failure": lambda arm: arm.failures,
    "client_fault": lambda arm: arm.client_faults,
    "rejected": lambda arm: arm.rejections,
    "timeout": lambda arm: arm.timeouts,
    "cancelled": lambda arm: arm.cancellations,
}

BATCH_BOUNDS: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

# Every eighth bucket of the log histogram, so that the coarse counts are exact: ×2.14 from one to the next.
_LATENCY_STEP = 8
_LATENCY_BUCKETS = range(_LATENCY_STEP, 170, _LATENCY_STEP)
LATENCY_BOUNDS_SECONDS: tuple[float, ...] = tuple(
    round(BOUNDS_NS[bucket] / 1e9, 6) for bucket in _LATENCY_BUCKETS
)


def _requests(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for model, version, arm in snapshot.arms:
        labels = arm_labels(model, version, arm.arm)
        for outcome, value in _OUTCOMES.items():
            yield "", labels_text({**labels, "outcome": outcome}), value(arm)


def _unrouted(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for outcome, count in snapshot.unrouted.items():
        yield "", labels_text({"outcome": outcome}), count


def _latencies(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for model, version, arm in snapshot.arms:
        counts = []
        start = 0
        for bucket in _LATENCY_BUCKETS:
            counts.append(sum(arm.latency[start : bucket + 1]))
            start = bucket + 1
        counts.append(sum(arm.latency[start:]))
        labels = arm_labels(model, version, arm.arm)
        yield from histogram(labels, LATENCY_BOUNDS_SECONDS, counts, arm.latency_ns / 1e9)


def _arm_seconds(name: str, help_: str, value: Callable[[ArmStats], int]) -> RuntimeFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for model, version, arm in snapshot.arms:
            yield "", labels_text(arm_labels(model, version, arm.arm)), value(arm) / 1e9

    return Family(name, "counter", help_, samples)


def _batch_sizes(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for stats in snapshot.versions:
        counts = [0] * (len(BATCH_BOUNDS) + 1)
        total = 0
        for device in stats.devices.values():
            for rows, size in device.batch_sizes.items():
                # The smallest power of two that holds `rows` is the bucket's bound.
                counts[min((rows - 1).bit_length(), len(BATCH_BOUNDS))] += size.executions
                total += rows * size.executions
        yield from histogram(version_labels(stats), BATCH_BOUNDS, counts, total)


def _gauge(name: str, help_: str, value: Callable[[Gauges], int]) -> RuntimeFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for stats in snapshot.versions:
            yield "", labels_text(version_labels(stats)), value(stats.gauges())

    return Family(name, "gauge", help_, samples)


def _busy(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for stats in snapshot.versions:
        labels = version_labels(stats)
        for instance in stats.instances.values():
            whose = {**labels, "instance": instance.name, "device": instance.device}
            yield "", labels_text(whose), instance.busy_ns / 1e9


def _traffic(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for entry in snapshot.traffic:
        yield "", labels_text(arm_labels(entry.model, entry.version, entry.arm)), entry.share


def _slots(name: str, help_: str, value: Callable[[SlotPool], int]) -> RuntimeFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for pool in snapshot.slots:
            yield "", labels_text({"pool": pool.name, "device": pool.device}), value(pool)

    return Family(name, "gauge", help_, samples)


def _process(
    name: str, kind: str, help_: str, value: Callable[[MetricsSnapshot], float]
) -> RuntimeFamily:
    return Family(name, kind, help_, lambda snapshot: [("", "", value(snapshot))])


def _temperatures(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for gpu in snapshot.gpus:
        if gpu.temperature_celsius is not None:
            yield "", labels_text({"gpu_uuid": gpu.uuid}), gpu.temperature_celsius


RUNTIME_FAMILIES: tuple[RuntimeFamily, ...] = (
    Family(
        "runtime_requests_total",
        "counter",
        "Requests by arm of the traffic table and by how they ended, since the process started",
        _requests,
    ),
    Family(
        "runtime_request_latency_seconds",
        "histogram",
        "Time from the complete request to its answer, successful requests",
        _latencies,
    ),
    _arm_seconds(
        "runtime_queue_seconds_total",
        "Time that successful requests waited for an instance",
        lambda arm: arm.queue_ns,
    ),
    _arm_seconds(
        "runtime_compute_seconds_total",
        "Time that successful requests spent in an execution",
        lambda arm: arm.compute_ns,
    ),
    Family(
        "runtime_batch_size",
        "histogram",
        "Rows of an execution: how large the batches really are",
        _batch_sizes,
    ),
    Family(
        "runtime_unrouted_requests_total",
        "counter",
        "Requests refused before a version saw them: unreadable, unknown model, not ready, starting, stopping",
        _unrouted,
    ),
    _gauge(
        "runtime_inflight_requests",
        "Requests accepted and not yet answered",
        lambda gauges: gauges.inflight,
    ),
    _gauge(
        "runtime_instances",
        "Instances that take work",
        lambda gauges: gauges.instances,
    ),
    _gauge(
        "runtime_instances_busy",
        "Instances that are executing a batch",
        lambda gauges: gauges.busy,
    ),
    Family(
        "runtime_instance_busy_seconds_total",
        "counter",
        "Time an instance has spent in executions: its rate is the instance's utilisation",
        _busy,
    ),
    Family(
        "runtime_traffic_share",
        "gauge",
        "Share of a model's traffic that the applied table gives to an arm [0.0 - 1.0]",
        _traffic,
    ),
    _slots(
        "runtime_slots_capacity",
        "Slots of a resource that the rate limiter shares out",
        lambda pool: pool.capacity,
    ),
    _slots(
        "runtime_slots_in_use",
        "Slots that executions hold",
        lambda pool: pool.in_use,
    ),
    _slots(
        "runtime_slots_waiting",
        "Instances with work that wait for slots",
        lambda pool: pool.waiting,
    ),
    Family(
        "runtime_gpu_temperature_celsius",
        "gauge",
        "GPU temperature in degrees Celsius",
        _temperatures,
    ),
    _process(
        "runtime_process_cpu_seconds_total",
        "counter",
        "CPU time this process has used",
        lambda snapshot: snapshot.process.cpu_seconds,
    ),
    _process(
        "runtime_process_memory_bytes",
        "gauge",
        "Resident memory of this process",
        lambda snapshot: snapshot.process.memory_bytes,
    ),
)
