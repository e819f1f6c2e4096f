"""Readings of a runtime without our statistics extension, such as a Triton. Pure.

It tells totals per version and durations summed over requests: no arms, no histogram, so no
percentiles; nothing of its process, so no CPU and no memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from webapp.runtime_client.metrics_text import MetricSample
from webapp.runtime_client.types import VersionStatistics
from webapp.telemetry.readings import (
    COUNTERS,
    FOREIGN_ARM,
    ArmCounters,
    ArmKey,
    RuntimeReading,
    VersionGauges,
)

NOTES = "this runtime tells totals only: no latency histogram, no CPU and memory of its process"
_REASONS = {
    "REJECTED": "rejections",
    "CANCELED": "cancellations",
    "BACKEND": "failures",
    "OTHER": "failures",
}
_GPU_FIELDS = {
    "nv_gpu_utilization": "utilization",
    "nv_gpu_memory_used_bytes": "memory_used_bytes",
    "nv_gpu_memory_total_bytes": "memory_total_bytes",
    "nv_gpu_power_usage": "power_watts",
}
_Version = tuple[str, int]


def reading_of_foreign(
    statistics: Iterable[VersionStatistics],
    metrics: Iterable[MetricSample] | None,
    *,
    at_ns: int,
) -> RuntimeReading:
    """`metrics` None: the runtime has no metrics address; then every failure counts as a fault."""
    samples = list(metrics or ())
    reasons = _failure_reasons(samples)
    pending = _pending(samples)
    arms: dict[ArmKey, ArmCounters] = {}
    versions: dict[_Version, VersionGauges] = {}
    for entry in statistics:
        version = (entry.model, entry.version)
        failures = {"failures": entry.fail_count} if metrics is None else reasons[version]
        arms[ArmKey(*version, FOREIGN_ARM)] = ArmCounters(0, _counts(entry, failures))
        versions[version] = VersionGauges(pending=pending.get(version), inflight=None)
    gpus = _gpus(samples)
    return RuntimeReading(
        epoch="",
        at_ns=at_ns,
        arms=arms,
        versions=versions,
        gpus=gpus,
        gpu_note="" if gpus else _gpu_note(metrics),
        notes=NOTES,
    )


def _gpu_note(metrics: Iterable[MetricSample] | None) -> str:
    if metrics is None:
        return "this runtime was added without a metrics address, where GPUs are reported"
    return "its /metrics names no GPU"


def _counts(entry: VersionStatistics, failures: Mapping[str, int]) -> dict[str, int]:
    counts = dict.fromkeys(COUNTERS, 0) | dict(failures)
    counts["requests"] = entry.success_count + sum(failures.values())
    counts["inferences"] = entry.inference_count
    counts["executions"] = entry.execution_count
    counts["queue_ns"] = entry.queue_ns
    counts["compute_ns"] = entry.compute_input_ns + entry.compute_infer_ns + entry.compute_output_ns
    return counts


def _version_of(labels: Mapping[str, str]) -> _Version | None:
    version = labels.get("version", "")
    return (labels["model"], int(version)) if "model" in labels and version.isdigit() else None


def _failure_reasons(samples: Iterable[MetricSample]) -> dict[_Version, dict[str, int]]:
    reasons: dict[_Version, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for sample in samples:
        version = _version_of(sample.labels)
        if sample.name == "nv_inference_request_failure" and version:
            counter = _REASONS.get(sample.labels.get("reason", ""), "failures")
            reasons[version][counter] += int(sample.value)
    return reasons


def _pending(samples: Iterable[MetricSample]) -> dict[_Version, int]:
    pending: dict[_Version, int] = defaultdict(int)
    for sample in samples:
        version = _version_of(sample.labels)
        if sample.name == "nv_inference_pending_request_count" and version:
            pending[version] += int(sample.value)
    return pending


def _gpus(samples: Iterable[MetricSample]) -> tuple[Mapping[str, Any], ...]:
    gpus: dict[str, dict[str, Any]] = {}
    for sample in samples:
        field = _GPU_FIELDS.get(sample.name)
        uuid = sample.labels.get("gpu_uuid")
        if field and uuid:
            gpus.setdefault(uuid, {"uuid": uuid})[field] = sample.value
    return tuple({**gpu, "index": index} for index, gpu in enumerate(gpus.values()))
