"""The latency-throughput curve of a run, as Plotly reads it. Drawn by static/js/figures.js."""

from collections.abc import Sequence
from typing import Any

from webapp.benchmarks.models import BenchmarkPoint, BenchmarkRun
from webapp.benchmarks.selectors import saturation_of

_COLOURS = ("stable", "canary")


def curve_figure(
    runs: Sequence[tuple[BenchmarkRun, list[BenchmarkPoint]]],
) -> dict[str, Any] | None:
    """Throughput to the right, latency upward, one dot for each rung. None without points."""
    traces: list[dict[str, Any]] = []
    for (run, points), colour in zip(runs, _COLOURS, strict=False):
        if points:
            traces += _traces(run, points, colour)
    if not traces:
        return None
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "inferences/s"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "latency (ms)"}, "rangemode": "tozero"},
            "legend": {"orientation": "h", "y": 1.12},
            "hovermode": "closest",
            "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
        },
    }


def _traces(run: BenchmarkRun, points: list[BenchmarkPoint], colour: str) -> list[dict[str, Any]]:
    name = f"v{run.version.number} {run.protocol}"
    p50 = _line(points, [p.p50_ms for p in points], f"{name} p50", colour, dash="dot")
    p99 = _line(points, [p.p99_ms for p in points], f"{name} p99", colour, dash="solid")
    knee = saturation_of(points=points)
    marked = [p for p in points if p.concurrency == knee]
    if not marked:
        return [p50, p99]
    mark = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [p.throughput for p in marked],
        "y": [p.p99_ms for p in marked],
        "text": [f"saturates at {knee}"],
        "textposition": "top left",
        "name": f"{name} saturation",
        "showlegend": False,
        "marker": {"size": 14, "symbol": "circle-open", "line": {"width": 2}},
        "meta": {"token": f"--{colour}-line"},
        "hoverinfo": "skip",
    }
    return [p50, p99, mark]


def _line(
    points: list[BenchmarkPoint], values: list[float], name: str, colour: str, *, dash: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [point.throughput for point in points],
        "y": values,
        "text": [str(point.concurrency) for point in points],
        "name": name,
        "line": {"dash": dash, "width": 2},
        "meta": {"token": f"--{colour}-line"},
        "hovertemplate": "concurrency %{text}<br>%{x:.3s}/s, %{y:.3s} ms<extra>"
        + name
        + "</extra>",
    }
