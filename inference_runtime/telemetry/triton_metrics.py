"""The `nv_*` families, with Triton's names, labels and help texts."""

from collections.abc import Callable, Iterable

from inference_runtime.errors import FailureReason
from inference_runtime.telemetry.durations import DurationDetail, DurationSeries
from inference_runtime.telemetry.exposition import Family, Sample, histogram, labels_text, quantiles
from inference_runtime.telemetry.gpu import GpuSample
from inference_runtime.telemetry.snapshot import MetricsSnapshot, version_labels
from inference_runtime.telemetry.stats import DeviceStats, VersionStats

TritonFamily = Family[MetricsSnapshot]

# Triton knows four reasons. A client's own fault is none of them, and is not a failure of the model.
_REASONS: dict[str, tuple[FailureReason, ...]] = {
    "REJECTED": (FailureReason.REJECTED, FailureReason.TIMEOUT),
    "CANCELED": (FailureReason.CANCELED,),
    "BACKEND": (FailureReason.BACKEND,),
    "OTHER": (FailureReason.OTHER,),
}


def _counter(name: str, help_: str, value: Callable[[DeviceStats], int]) -> TritonFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for labels, device in snapshot.devices():
            yield "", labels_text(labels), value(device)

    return Family(name, "counter", help_, samples)


def _duration(name: str, help_: str, value: Callable[[DeviceStats], int]) -> TritonFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        if snapshot.options.counter_latencies:
            for labels, device in snapshot.devices():
                yield "", labels_text(labels), value(device) // 1000

    return Family(name, "counter", help_, samples)


def _gauge(name: str, help_: str, value: Callable[[VersionStats], float]) -> TritonFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for stats in snapshot.versions:
            yield "", labels_text(version_labels(stats)), value(stats)

    return Family(name, "gauge", help_, samples)


def _summary(
    name: str,
    help_: str,
    series: Callable[[DurationDetail], DurationSeries],
    *,
    with_cache: bool = True,
) -> TritonFamily:
    """`with_cache`: versions that use the response cache have it, too."""

    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for stats in snapshot.versions:
            if stats.cache is not None and not with_cache:
                continue
            if stats.detail is not None and stats.detail.summaries:
                labels = version_labels(stats)
                yield from quantiles(labels, snapshot.options.quantiles, series(stats.detail))

    return Family(name, "summary", help_, samples)


def _failures(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for stats in snapshot.versions:
        labels = version_labels(stats)
        for label, reasons in _REASONS.items():
            value = sum(stats.failures[reason] for reason in reasons)
            yield "", labels_text({**labels, "reason": label}), value


def _first_responses(snapshot: MetricsSnapshot) -> Iterable[Sample]:
    for stats in snapshot.versions:
        first = stats.detail.first_responses if stats.detail is not None else None
        if first is not None:
            yield from histogram(
                version_labels(stats), first.bounds_ms, first.counts, first.total_ms
            )


def _gpu(
    name: str, help_: str, value: Callable[[GpuSample], float | None], kind: str = "gauge"
) -> TritonFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        for gpu in snapshot.gpus:
            reading = value(gpu)
            if reading is not None:
                yield "", labels_text({"gpu_uuid": gpu.uuid}), reading

    return Family(name, kind, help_, samples)


def _cpu(name: str, help_: str, attribute: str) -> TritonFamily:
    def samples(snapshot: MetricsSnapshot) -> Iterable[Sample]:
        if snapshot.host is not None:
            yield "", "", getattr(snapshot.host, attribute)

    return Family(name, "gauge", help_, samples)


_CACHED = "(includes cached requests)"
_UNCACHED = "(does not include cached requests)"

TRITON_FAMILIES: tuple[TritonFamily, ...] = (
    _counter(
        "nv_inference_request_success",
        "Number of successful inference requests, all batch sizes",
        lambda device: device.successes,
    ),
    Family(
        "nv_inference_request_failure",
        "counter",
        "Number of failed inference requests, all batch sizes",
        _failures,
    ),
    _counter(
        "nv_inference_count",
        "Number of inferences performed (does not include cached requests)",
        lambda device: device.inferences,
    ),
    _counter(
        "nv_inference_exec_count",
        "Number of model executions performed (does not include cached requests)",
        lambda device: device.executions,
    ),
    _duration(
        "nv_inference_request_duration_us",
        f"Cumulative inference request duration in microseconds {_CACHED}",
        lambda device: device.success_ns,
    ),
    _duration(
        "nv_inference_queue_duration_us",
        f"Cumulative inference queuing duration in microseconds {_CACHED}",
        lambda device: device.queue_ns,
    ),
    _duration(
        "nv_inference_compute_input_duration_us",
        f"Cumulative compute input duration in microseconds {_UNCACHED}",
        lambda device: device.input_ns,
    ),
    _duration(
        "nv_inference_compute_infer_duration_us",
        f"Cumulative compute inference duration in microseconds {_UNCACHED}",
        lambda device: device.infer_ns,
    ),
    _duration(
        "nv_inference_compute_output_duration_us",
        f"Cumulative inference compute output duration in microseconds {_UNCACHED}",
        lambda device: device.output_ns,
    ),
    _gauge(
        "nv_inference_pending_request_count",
        "Instantaneous number of pending requests awaiting execution per-model.",
        lambda stats: stats.gauges().pending,
    ),
    _gauge(
        "nv_model_load_duration_secs",
        "Model load time in seconds",
        lambda stats: stats.load_seconds,
    ),
    Family(
        "nv_inference_first_response_histogram_ms",
        "histogram",
        "Duration from request to first response in milliseconds",
        _first_responses,
    ),
    _summary(
        "nv_inference_request_summary_us",
        f"Summary of inference request duration in microseconds {_CACHED}",
        lambda detail: detail.request,
        with_cache=False,
    ),
    _summary(
        "nv_inference_queue_summary_us",
        f"Summary of inference queuing duration in microseconds {_CACHED}",
        lambda detail: detail.queue,
    ),
    _summary(
        "nv_inference_compute_input_summary_us",
        f"Summary of compute input duration in microseconds {_UNCACHED}",
        lambda detail: detail.compute_input,
    ),
    _summary(
        "nv_inference_compute_infer_summary_us",
        f"Summary of compute inference duration in microseconds {_UNCACHED}",
        lambda detail: detail.compute_infer,
    ),
    _summary(
        "nv_inference_compute_output_summary_us",
        f"Summary of inference compute output duration in microseconds {_UNCACHED}",
        lambda detail: detail.compute_output,
    ),
    _gpu("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", lambda gpu: gpu.utilization),
    _gpu(
        "nv_gpu_memory_total_bytes",
        "GPU total memory, in bytes",
        lambda gpu: gpu.memory_total_bytes,
    ),
    _gpu(
        "nv_gpu_memory_used_bytes",
        "GPU used memory, in bytes",
        lambda gpu: gpu.memory_used_bytes,
    ),
    _gpu("nv_gpu_power_usage", "GPU power usage in watts", lambda gpu: gpu.power_watts),
    _gpu(
        "nv_gpu_power_limit",
        "GPU power management limit in watts",
        lambda gpu: gpu.power_limit_watts,
    ),
    _gpu(
        "nv_energy_consumption",
        "GPU energy consumption in joules since the Triton Server started",
        lambda gpu: gpu.energy_joules,
        kind="counter",
    ),
    _cpu("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", "cpu_utilization"),
    _cpu(
        "nv_cpu_memory_total_bytes",
        "CPU total memory (RAM), in bytes",
        "memory_total_bytes",
    ),
    _cpu("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", "memory_used_bytes"),
    Family(
        "nv_pinned_memory_pool_total_bytes",
        "gauge",
        "Pinned memory pool total memory size, in bytes",
        lambda snapshot: [("", "", snapshot.options.pinned_pool_bytes)],
    ),
    Family(
        "nv_pinned_memory_pool_used_bytes",
        "gauge",
        "Pinned memory pool used memory size, in bytes",
        lambda snapshot: [("", "", 0)],  # inputs are joined in ordinary memory
    ),
)
