"""Runtimes and placements as plain JSON: what the API answers and what watchers are told."""

from datetime import datetime
from typing import Any

from webapp.serving.models import Runtime
from webapp.serving.selectors import Placement, placement_counts


def runtime_body(runtime: Runtime) -> dict[str, Any]:
    counts = placement_counts(runtime=runtime)
    return {
        "name": runtime.name,
        "http_address": runtime.http_address,
        "grpc_address": runtime.grpc_address,
        "metrics_address": runtime.metrics_address,
        "embedded": runtime.embedded,
        "health": runtime.health,
        "health_reason": runtime.health_reason,
        "health_since": iso(runtime.health_since),
        "last_seen_at": iso(runtime.last_seen_at),
        "server": {"name": runtime.server_name, "version": runtime.server_version},
        "extensions": runtime.extensions,
        "versions": {
            "desired": counts.desired,
            "loaded": counts.loaded,
            "drifted": counts.drifted,
            "foreign": counts.foreign,
        },
    }


def placement_body(placement: Placement) -> dict[str, Any]:
    return {
        "runtime": placement.runtime,
        "model": placement.model,
        "version": placement.version,
        "desired": placement.desired,
        "observed": placement.observed,
        "reason": placement.reason,
        "since": iso(placement.since),
        "retry_at": iso(placement.retry_at),
        "managed": placement.managed,
        "drifted": placement.drifted,
    }


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
