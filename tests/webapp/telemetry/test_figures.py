"""What we hand to the page is valid for Plotly, and wears the tokens of the stylesheet."""

import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from webapp.telemetry import figures
from webapp.telemetry.frames import SCOPE_METRICS, VERSION_METRICS

TOKENS = Path(__file__).resolve().parents[3] / "static/css/tokens.css"
VALUES = [1.0, None, 0.5]
EVERYTHING = dict.fromkeys(SCOPE_METRICS, VALUES)
PAIR = {role: dict.fromkeys(figures.PAIR_METRICS, VALUES) for role in ("stable", "canary")}
NUMBERS = {"stable": 3, "canary": 4}


def versions(count: int = 2, **more: Any) -> list[figures.VersionSeries]:
    series = dict.fromkeys(VERSION_METRICS, VALUES)
    return [figures.VersionSeries("resnet50", n, series, **more) for n in range(1, count + 1)]


ALL = [
    *figures.model_figures(versions=versions(), everything=EVERYTHING),
    *figures.rollout_figures(PAIR, versions=NUMBERS),
    figures.share_figure(VALUES, version=4),
    *(
        figures.device_figure(panel, {"edge-1": VALUES}, {})
        for panel in (*figures.DEVICE_PANELS, *figures.GPU_PANELS)
    ),
    figures.curve_figure(
        [figures.Curve("v1", [10, 20], [3.0, 4.0], texts=["1 at a time", "2 at a time"])],
        x_title="Throughput",
        y_title="p99",
        marked_x={20: "saturation"},
    ),
]
IDS = [figure.get("name", "curve") for figure in ALL]


@pytest.mark.parametrize("figure", ALL, ids=IDS)
def test_plotly_accepts_the_figure(figure: Any) -> None:
    go.Figure({"data": figure["data"], "layout": figure["layout"]})


@pytest.mark.parametrize("figure", ALL, ids=IDS)
def test_colours_are_tokens_that_exist_in_both_themes(figure: Any) -> None:
    text = json.dumps(figure)
    css = TOKENS.read_text()
    for token in set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) - {"--font"}:
        assert css.count(f"{token}:") == 3, token
    assert not re.search(r"#[0-9a-f]{6}", text)


def test_stable_and_canary_wear_their_colours_everywhere() -> None:
    table = [figures.STABLE, figures.CANARY]
    for figure in figures.rollout_figures(PAIR, versions=NUMBERS):
        by_version = {trace["meta"]["key"].split("@")[1]: trace for trace in figure["data"]}
        assert [by_version[number]["line"]["color"] for number in ("3", "4")] == table
    pair = [*versions(1, role="stable"), *versions(1, role="canary")]
    figure = figures.version_figure("requests_per_second", pair)
    assert [trace["line"]["color"] for trace in figure["data"]] == table


def test_hover_tells_the_formula() -> None:
    for figure in ALL[:-1]:
        assert "÷" in figure["formula"] or figure["formula"]
        hover = figure["layout"]["xaxis"]["unifiedhovertitle"]["text"]
        assert figure["formula"].split()[0] in hover


def test_what_has_no_line_of_its_own_is_drawn_as_one() -> None:
    total = [5.0, None, 0.5]
    figure = figures.version_figure("requests_per_second", versions(2), rest=total)
    assert figure["data"][-1]["name"] == "all others"
    assert figure["data"][-1]["y"] == [3.0, None, 0.0]


def test_axes_start_at_zero() -> None:
    assert {figure["layout"]["yaxis"]["rangemode"] for figure in ALL} == {"tozero"}
