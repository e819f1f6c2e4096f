"""The body of our statistics extension: cumulative counters of every arm, for whoever takes differences."""

from collections.abc import Callable
from typing import Any

from inference_runtime.telemetry.arm_stats import ArmStats
from inference_runtime.telemetry.gpu import GpuReading, GpuSample
from inference_runtime.telemetry.host import ProcessReading
from inference_runtime.telemetry.registry import StatsRegistry
from inference_runtime.telemetry.snapshot import model_labels
from inference_runtime.telemetry.stats import Gauges, VersionStats

StateOf = Callable[[str, int], str]


def statistics_body(
    *,
    registry: StatsRegistry,
    process: ProcessReading,
    gpus: GpuReading,
    state_of: StateOf,
) -> dict[str, Any]:
    """A version that is unloaded stays listed: what its arms counted last must not be lost."""
    return {
        "process": {
            "started_at": registry.started_at.isoformat(),
            "epoch": registry.epoch,
            "pid": process.pid,
            "cpu_seconds": process.cpu_seconds,
            "memory_bytes": process.memory_bytes,
            "at_ns": process.at_ns,
        },
        "gpus": [_gpu_body(gpu) for gpu in gpus.gpus],
        "gpu_note": gpus.note,
        "models": [
            _version_body(model, version, state_of(model, version), arms, stats)
            for (model, version), arms, stats in registry.versions()
        ],
    }


def _gpu_body(gpu: GpuSample) -> dict[str, Any]:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "utilization": gpu.utilization,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_total_bytes": gpu.memory_total_bytes,
        "power_watts": gpu.power_watts,
        "temperature_celsius": gpu.temperature_celsius,
    }


def _version_body(
    model: str, version: int, state: str, arms: dict[str, ArmStats], stats: VersionStats | None
) -> dict[str, Any]:
    gauges = stats.gauges() if stats is not None else Gauges()
    return {
        **model_labels(model),
        "version": version,
        "state": state,
        "pending": gauges.pending,
        "inflight": gauges.inflight,
        "instances": gauges.instances,
        "busy": gauges.busy,
        "arms": [arm_body(arm) for arm in arms.values()],
    }


def arm_body(arm: ArmStats) -> dict[str, Any]:
    return {
        "arm": arm.arm,
        "generation": arm.generation,
        "requests": arm.requests,
        "successes": arm.successes,
        "failures": arm.failures,
        "client_faults": arm.client_faults,
        "rejections": arm.rejections,
        "timeouts": arm.timeouts,
        "cancellations": arm.cancellations,
        "inferences": arm.inferences,
        "executions": arm.executions,
        "queue_ns": arm.queue_ns,
        "compute_ns": arm.compute_ns,
        "latency": {str(bucket): count for bucket, count in enumerate(arm.latency) if count},
    }
