"""Stable and canary side by side, row by row, with the difference and what it means."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webapp.core.templatetags.units import UNKNOWN, milliseconds, number, percent

Format = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    stable: str
    canary: str
    difference: str
    tone: str  # "good", "bad" or "idle", for the difference
    hint: str


@dataclass(frozen=True, slots=True)
class _Measure:
    label: str
    path: str
    format: Format
    hint: str
    noticeable: float | None  # a relative change of this size is worth a colour; None: never


_MEASURES = (
    _Measure("Requests", "requests", number, "settled, all ends", None),
    _Measure("Error share", "error_share", percent, "server faults, timeouts and rejections ÷ requests", 0.5),
    _Measure("p50", "latency_ms.p50", milliseconds, "median latency of answered requests", 0.2),
    _Measure("p95", "latency_ms.p95", milliseconds, "95% of answered requests were faster", 0.2),
    _Measure("p99", "latency_ms.p99", milliseconds, "99% of answered requests were faster", 0.2),
    _Measure("Queue time", "queue_ms", milliseconds, "mean; a smaller arm waits longer for a full batch", None),
    _Measure("Compute time", "compute_ms", milliseconds, "mean, in the backend", 0.2),
    _Measure("Batch size", "batch_size", number, "inferences ÷ executions", None),
)  # fmt: skip


def comparison_rows(stable: dict[str, Any], canary: dict[str, Any]) -> list[Row]:
    """Both as `report.tally_body` makes them."""
    return [
        _row(measure, _value(stable, measure.path), _value(canary, measure.path))
        for measure in _MEASURES
    ]


def _value(body: dict[str, Any], path: str) -> float | None:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) else None


def _row(measure: _Measure, stable: float | None, canary: float | None) -> Row:
    difference, tone = _difference(measure, stable, canary)
    return Row(
        label=measure.label,
        stable=measure.format(stable),
        canary=measure.format(canary),
        difference=difference,
        tone=tone,
        hint=measure.hint,
    )


def _difference(measure: _Measure, stable: float | None, canary: float | None) -> tuple[str, str]:
    if stable is None or canary is None or measure.path == "requests":
        return (UNKNOWN if measure.path != "requests" else ""), "idle"
    change = canary - stable
    if change == 0:
        return "same", "idle"
    arrow, sign = ("▲", "+") if change > 0 else ("▼", "−")
    text = f"{arrow} {sign}{measure.format(abs(change))}"
    if measure.noticeable is None or abs(change) < measure.noticeable * max(stable, 1e-9):
        return text, "idle"
    return text, "bad" if change > 0 else "good"
