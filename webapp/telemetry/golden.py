"""The few numbers on top of a board, over the last seconds; board.js keeps them moving."""

from typing import Any

from webapp.telemetry.boards import Board
from webapp.telemetry.selectors import totals_now
from webapp.telemetry.totals import METRICS, Totals, value_of

GOLDEN = (
    ("requests_per_second", "Requests"),
    ("error_share", "Errors"),
    ("latency_p50_ms", "p50"),
    ("latency_p95_ms", "p95"),
    ("latency_p99_ms", "p99"),
    ("pending", "Queue depth"),
    ("inflight", "In flight"),
)


def golden_numbers(board: Board) -> list[dict[str, Any]]:
    """The numbers on top, over the last seconds; the page keeps them moving."""
    totals = totals_now(model=board.model, runtime=board.runtime)
    return [
        {
            "key": metric,
            "label": label,
            "unit": METRICS[metric].unit,
            "formula": f"{METRICS[metric].formula}, over the last 10 s",
            "value": _golden(metric, totals),
        }
        for metric, label in GOLDEN
    ]


def _golden(metric: str, totals: Totals | None) -> float | None:
    if totals is None:
        return None
    value = value_of(metric, totals)
    idle = value is None and not totals.requests  # under traffic, what is not told is unknown
    return METRICS[metric].idle if idle else value
