"""Curves that are not over time, such as throughput against latency. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webapp.telemetry.figures.looks import PALETTE, UNITS, Json, axis, layout_base


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in the order they are joined; `texts` are shown on hover."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    color: str = PALETTE[0]
    dash: str = "solid"
    texts: Sequence[str] = ()


def curve_figure(
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    x_unit: str = "per_second",
    y_unit: str = "ms",
    marked_x: Mapping[float, str] | None = None,
) -> Json:
    """Such as throughput against latency; `marked_x` draws a labelled rule at an x."""
    x_looks, y_looks = UNITS[x_unit], UNITS[y_unit]
    hover = (
        f"%{{text}}<br>%{{x:{x_looks.hover}}}{x_looks.suffix}, "
        f"%{{y:{y_looks.hover}}}{y_looks.suffix}"
    )
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": curve.name,
                "x": list(curve.x),
                "y": list(curve.y),
                "text": list(curve.texts) or [curve.name] * len(curve.x),
                "line": {"color": curve.color, "width": 2, "dash": curve.dash},
                "marker": {"size": 7},
                "hovertemplate": hover + "<extra></extra>",
            }
            for curve in curves
        ],
        "layout": {
            **layout_base(),
            "margin": {"l": 60, "r": 14, "t": 24, "b": 48},
            "hovermode": "closest",
            "showlegend": len(curves) > 1,
            "legend": {**layout_base()["legend"], "y": -0.24},
            "xaxis": axis(
                title={"text": x_title},
                rangemode="tozero",
                tickformat=x_looks.axis,
                ticksuffix=x_looks.suffix,
            ),
            "yaxis": axis(
                title={"text": y_title},
                rangemode="tozero",
                tickformat=y_looks.axis,
                ticksuffix=y_looks.suffix,
                automargin=True,
            ),
            "shapes": [_rule(x) for x in marked_x or {}],
            "annotations": [_rule_label(x, text) for x, text in (marked_x or {}).items()],
        },
    }


def _rule(x: float) -> Json:
    line = {"color": "var(--line-strong)", "width": 1, "dash": "dash"}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _rule_label(x: float, text: str) -> Json:
    return {
        "x": x,
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"size": 12, "color": "var(--ink)"},
    }
