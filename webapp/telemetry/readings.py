"""One look at one runtime: cumulative counters and gauges, whatever kind of runtime it is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COUNTERS = (
    "requests",
    "failures",
    "client_faults",
    "rejections",
    "timeouts",
    "cancellations",
    "inferences",
    "executions",
    "queue_ns",
    "compute_ns",
)
FOREIGN_ARM = "default"  # a runtime without traffic tables chooses the version itself


class UnreadableStatistics(Exception):
    """The runtime answered something that is not the statistics we know."""


@dataclass(frozen=True, slots=True)
class ArmKey:
    model: str
    version: int
    arm: str


@dataclass(frozen=True, slots=True)
class ArmCounters:
    """Cumulative since the runtime's process started."""

    generation: int
    counts: Mapping[str, int]  # by COUNTERS
    latency: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionGauges:
    """None: this runtime does not tell."""

    pending: int | None
    inflight: int | None


@dataclass(frozen=True, slots=True)
class RuntimeReading:
    """`epoch` names the runtime's process: while it stays the same, counters only grow.

    `at_ns` is a monotonic clock, comparable between readings of one epoch only.
    """

    epoch: str
    at_ns: int
    arms: Mapping[ArmKey, ArmCounters]
    versions: Mapping[tuple[str, int], VersionGauges]  # what is loaded
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    gpus: tuple[Mapping[str, Any], ...] = ()
    gpu_note: str = ""
    notes: str = ""


def reading_of(body: Mapping[str, Any]) -> RuntimeReading:
    """The body of our own statistics extension → a reading."""
    try:
        process = body["process"]
        arms: dict[ArmKey, ArmCounters] = {}
        versions: dict[tuple[str, int], VersionGauges] = {}
        for entry in body["models"]:
            model, version = str(entry["model"]), int(entry["version"])
            if entry.get("state", "READY") == "READY":
                versions[model, version] = VersionGauges(
                    pending=int(entry["pending"]), inflight=int(entry["inflight"])
                )
            for arm in entry["arms"]:
                arms[ArmKey(model, version, str(arm["arm"]))] = _arm_counters(arm)
        return RuntimeReading(
            epoch=str(process["epoch"]),
            at_ns=int(process["at_ns"]),
            arms=arms,
            versions=versions,
            cpu_seconds=float(process["cpu_seconds"]),
            memory_bytes=int(process["memory_bytes"]),
            gpus=tuple(dict(gpu) for gpu in body.get("gpus", ())),
            gpu_note=str(body.get("gpu_note", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableStatistics(
            f"its statistics have an unknown form ({type(problem).__name__}: {problem})"
        ) from problem


def _arm_counters(arm: Mapping[str, Any]) -> ArmCounters:
    return ArmCounters(
        generation=int(arm.get("generation") or 0),
        counts={name: int(arm.get(name, 0)) for name in COUNTERS},
        latency={int(bucket): int(count) for bucket, count in arm.get("latency", {}).items()},
    )
