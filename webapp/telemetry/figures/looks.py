"""How charts look: colours, units, the layout they share. Pure.

Colours are written as `var(--token)` of static/css/tokens.css; static/js/figures.js puts the
values of the current theme in their place, and again when the theme is switched.
"""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

STABLE = "var(--stable-line)"
CANARY = "var(--canary-line)"
ROLE_COLORS = {"stable": STABLE, "canary": CANARY}
PALETTE = tuple(f"var(--series-{n})" for n in range(1, 9))
REST = "var(--idle-line)"


@dataclass(frozen=True, slots=True)
class Unit:
    """How a unit is written: on the axis, on hover, and how far up an axis reaches at least."""

    axis: str
    hover: str
    suffix: str
    least: float


UNITS = {
    "per_second": Unit("~s", ".3~s", "/s", 1),
    "share": Unit(".3~%", ".3~%", "", 0.01),
    "fraction": Unit(".3~%", ".3~%", "", 1),
    "ms": Unit(",.3~f", ",.3~r", " ms", 1),
    "count": Unit(",.3~f", ",.3~r", "", 1),
    "percent": Unit(",.3~f", ",.3~r", "%", 10),
    "bytes": Unit("~s", ".3~s", "B", 1e6),
    "watts": Unit(",.3~f", ",.3~r", " W", 10),
    "celsius": Unit(",.3~f", ",.3~r", " °C", 10),
}


def layout_base() -> Json:
    """What all charts share: no paper of their own, quiet grid, the page's type."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "var(--font)", "size": 12, "color": "var(--ink-soft)"},
        "margin": {"l": 52, "r": 10, "t": 10, "b": 28},
        "hoverlabel": {
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--line-strong)",
            "font": {"family": "var(--font)", "size": 12, "color": "var(--ink)"},
            "namelength": 40,
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": -0.14,
            "yanchor": "top",
            "font": {"size": 12, "color": "var(--ink-soft)"},
            "itemwidth": 30,
        },
    }


def axis(**more: Any) -> Json:
    return {
        "gridcolor": "var(--grid-line)",
        "linecolor": "var(--line)",
        "tickcolor": "var(--line)",
        "zeroline": False,
        **more,
    }
