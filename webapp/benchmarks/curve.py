"""The latency-throughput curve of one run, or of two laid beside each other."""

from collections.abc import Sequence
from typing import Any

from webapp.benchmarks.models import BenchmarkPoint, BenchmarkRun
from webapp.benchmarks.selectors import saturation_of
from webapp.telemetry.figures import PALETTE, Curve, curve_figure

_LINES = (("p50", "p50_ms", "dot"), ("p95", "p95_ms", "dash"), ("p99", "p99_ms", "solid"))


def latency_throughput_figure(
    runs: Sequence[tuple[BenchmarkRun, list[BenchmarkPoint]]],
) -> dict[str, Any] | None:
    """Throughput to the right, latency upward, one dot for each rung. None without points."""
    curves = [
        Curve(
            name=f"{_name(run)} {title}",
            x=[point.throughput for point in points],
            y=[getattr(point, field) for point in points],
            color=color,
            dash=dash,
            texts=[f"{_name(run)} {title}, {point.concurrency} in flight" for point in points],
        )
        for (run, points), color in zip(runs, PALETTE, strict=False)
        for title, field, dash in _LINES
        if points
    ]
    if not curves:
        return None
    return curve_figure(
        curves, x_title="inferences/s", y_title="latency", marked_x=_saturation_marks(runs)
    )


def _name(run: BenchmarkRun) -> str:
    return f"v{run.version.number} {run.get_protocol_display()}"


def _saturation_marks(
    runs: Sequence[tuple[BenchmarkRun, list[BenchmarkPoint]]],
) -> dict[float, str]:
    marks = {}
    for run, points in runs:
        knee = saturation_of(points=points)
        for point in points:
            if point.concurrency == knee:
                marks[point.throughput] = f"{_name(run)} saturates at {knee}"
    return marks
