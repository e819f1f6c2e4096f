"""Figures over time: lines keyed like the live frames, without x, which a whole board shares. Pure.

static/js/figures.js adds x, stacks what is to be stacked, and appends what happens meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from webapp.telemetry.figures.looks import UNITS, Json, Unit, axis, layout_base
from webapp.telemetry.totals import METRICS

Series = Sequence[float | None]
_TICKS = [  # one line each: a second one would need room under every chart
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M"},
    {"dtickrange": [86_400_000, None], "value": "%b %d"},
]


@dataclass(frozen=True, slots=True)
class Line:
    """`key` names the value in live frames; `idle` is meant when a frame leaves it out."""

    key: str
    name: str
    color: str
    values: Series
    idle: float | None = None
    dash: str = "solid"
    width: float = 1.5

    def trace(self, unit: Unit) -> Json:
        return {
            "type": "scatter",
            "mode": "lines",
            "name": self.name,
            "line": {"color": self.color, "width": self.width, "dash": self.dash},
            "hovertemplate": f"%{{customdata:{unit.hover}}}{unit.suffix}",
            "y": list(self.values),
            "meta": {"key": self.key, "idle": self.idle},
        }


def time_figure(
    *,
    name: str,
    title: str,
    unit: str,
    formula: str,
    lines: Sequence[Line],
    stacked: bool = False,
) -> Json:
    looks = UNITS[unit]
    return {
        "name": name,
        "title": title,
        "formula": formula,
        "stacked": stacked,
        "bands": [],
        "data": [line.trace(looks) for line in lines],
        "layout": _time_layout(looks, formula, legend=len(lines) > 1),
    }


def _time_layout(unit: Unit, formula: str, *, legend: bool) -> Json:
    return {
        **layout_base(),
        "hovermode": "x unified",
        "showlegend": legend,
        "xaxis": axis(
            type="date",
            tickformatstops=_TICKS,
            unifiedhovertitle={"text": _hover_title(formula)},
        ),
        "yaxis": axis(
            rangemode="tozero",
            autorangeoptions={"include": [0, unit.least]},
            fixedrange=True,
            nticks=5,
            tickformat=unit.axis,
            ticksuffix=unit.suffix,
            automargin=True,
        ),
        # Event marks stand on an axis of their own, so that they never move the values' axis.
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    }


def _hover_title(formula: str) -> str:
    small = "<br>".join(wrap(formula, 44))
    return f'%{{x|%H:%M:%S}}<br><span style="font-size:11px">{small}</span>'


def metric_line(metric: str, values: Series, **looks: Any) -> Line:
    spec = METRICS[metric]
    given = {"key": metric, "name": spec.title} | looks
    return Line(values=values, idle=spec.idle, **given)


def metric_figure(
    metric: str, lines: Sequence[Line], *, title: str = "", name: str = "", stacked: bool = False
) -> Json:
    spec = METRICS[metric]
    return time_figure(
        name=name or metric,
        title=title or spec.title,
        unit=spec.unit,
        formula=spec.formula,
        lines=lines,
        stacked=stacked,
    )
