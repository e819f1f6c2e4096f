"""A benchmark run as others see it: the body of the API and of live frames."""

from typing import Any

from webapp.benchmarks.models import BenchmarkPoint, BenchmarkRun
from webapp.benchmarks.selectors import benchmark_snapshot, point_list, saturation_of


def benchmark_body(run: BenchmarkRun) -> dict[str, Any]:
    points = point_list(run=run)
    return {
        "id": run.id,
        "state": run.state,
        "reason": run.reason,
        "model": run.version.model.name,
        "version": run.version.number,
        "runtime": run.runtime.name if run.runtime else None,
        "protocol": run.protocol,
        "concurrency": run.concurrency,
        "window_seconds": run.window_seconds,
        "batch_size": run.batch_size,
        "inputs": "given" if run.inputs is not None else "generated",
        "facts": run.facts,
        "points": [point_body(point) for point in points],
        "saturation": {"concurrency": saturation_of(points=points)},
        "operation": run.job_id,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
    }


def point_body(point: BenchmarkPoint) -> dict[str, Any]:
    return {
        "concurrency": point.concurrency,
        "throughput": point.throughput,
        "latency_ms": {
            "p50": point.p50_ms,
            "p90": point.p90_ms,
            "p95": point.p95_ms,
            "p99": point.p99_ms,
        },
        "queue_ms": point.queue_ms,
        "compute_ms": point.compute_ms,
        "batch_size": point.realised_batch_size,
        "requests": point.requests,
        "errors": point.errors,
        "windows": point.windows,
        "stable": point.stable,
        "client_cpu_percent": point.client_cpu_percent,
    }


def snapshot(run_id: str, _user: object) -> dict[str, Any] | None:
    """What a watcher of `benchmark:<id>` is shown first."""
    run = benchmark_snapshot(run_id=run_id)
    return benchmark_body(run) if run else None
