"""The track diagram says in widths what the numbers say, and in words for those who do not see it."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, strategies as st

from webapp.core.track_diagram import (
    Arm,
    Diagram,
    diagram_of_traffic,
    large_svg,
    percent_text,
    small_svg,
    summary_text,
)

STABLE = Arm("v11", "stable", 0.95, 0.93)
CANARY = Arm("v12", "canary", 0.05, 0.07)
SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))


def lines(svg: str, classes: str) -> list[float]:
    wanted = set(classes.split())
    return [
        float(path.get("stroke-width", "0"))
        for path in parsed(svg).iter(f"{SVG}path")
        if wanted <= set(path.get("class", "").split())
    ]


def test_the_width_of_a_line_is_the_observed_share_and_of_its_ghost_the_configured_one():
    svg = small_svg(Diagram("resnet50", (STABLE, CANARY)))
    (stable,), (canary,) = (
        lines(svg, "track-line track-stable"),
        lines(svg, "track-line track-canary"),
    )
    (ghost,) = lines(svg, "track-ghost track-canary")
    assert stable > 4 * canary
    assert ghost < canary < stable


def test_small_is_120_by_24():
    svg = parsed(small_svg(Diagram("resnet50", (STABLE, CANARY))))
    assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("120", "24", "0 0 120 24")


def test_large_holds_a_wide_and_a_narrow_drawing():
    html = large_svg(Diagram("resnet50", (STABLE, CANARY)))
    assert re.findall(r'class="track track-(\w+)"', html) == ["wide", "narrow"]
    root = parsed(html)
    for svg in root:
        _, _, width, height = (float(value) for value in svg.get("viewBox", "").split())
        for element in svg.iter():
            if element.get("cx"):
                assert 0 <= float(element.get("cx", "-1")) <= width
                assert 0 <= float(element.get("cy", "-1")) <= height


def test_says_everything_in_words():
    diagram = Diagram("resnet50", (STABLE, CANARY), next_share=0.1)
    svg = parsed(small_svg(diagram))
    assert svg.get("role") == "img"
    assert svg.findtext(f"{SVG}title") == "Traffic of resnet50"
    assert svg.findtext(f"{SVG}desc") == summary_text(diagram)
    assert svg.get("aria-label") == f"Traffic of resnet50. {summary_text(diagram)}"
    assert summary_text(diagram) == (
        "v11, stable, available: configured 95%, observed 93%; "
        "v12, canary, available: configured 5%, observed 7%; next step 10%."
    )


def test_one_version_is_a_straight_line_without_a_switch():
    html = large_svg(Diagram("resnet50", (Arm("v1", "stable", 1.0, 1.0),)))
    assert "track-switch" not in html
    assert "track-trunk" not in html


def test_without_traffic_the_line_is_thin_and_quiet_and_the_share_is_unknown():
    svg = small_svg(Diagram("resnet50", (Arm("v1", "stable", 1.0, None),)))
    (quiet,) = lines(svg, "track-quiet track-stable")
    assert quiet < 2
    assert "observed not known yet" in svg


def test_without_versions_it_still_draws():
    assert "No version has traffic." in small_svg(Diagram("resnet50"))
    assert "No traffic" in large_svg(Diagram("resnet50"))


def test_a_version_kept_warm_stands_on_a_siding_the_switch_does_not_lead_to():
    arms = (Arm("v12", "stable", 1.0, 1.0), Arm("v11", "idle", lamp_word="loaded, standing by"))
    html = large_svg(Diagram("resnet50", arms))
    assert "track-switch" not in html
    assert "v11 no traffic" in html
    assert "loaded, standing by" in html


def test_shadow_traffic_has_its_own_track():
    arms = (Arm("v1", "stable", 1.0, 1.0), Arm("v2", "shadow"))
    assert lines(small_svg(Diagram("m", arms)), "track-line track-shadow")


def test_the_next_step_is_drawn_only_where_it_leads_further():
    on = large_svg(Diagram("m", (STABLE, CANARY), next_share=0.25))
    off = large_svg(Diagram("m", (STABLE, Arm("v12", "canary", 0.25, 0.5)), next_share=0.25))
    assert "track-next" in on
    assert "track-next" not in off


def test_text_from_people_cannot_break_out():
    html = large_svg(Diagram('"><script>', (Arm("<b>&", "stable", 1.0, None, lamp_word='"x"'),)))
    assert "<script" not in html
    assert "<b>" not in html
    parsed(html)


def test_reads_the_traffic_shape_of_the_api():
    traffic = {
        "model": "resnet50",
        "generation": 7,
        "arms": [
            {"version": 3, "variant": None, "role": "stable", "configured": 0.9, "applied": 0.9,
             "observed": 0.91},
            {"version": 4, "variant": "fp16", "role": "canary", "configured": 0.1, "applied": 0.1,
             "observed": None, "lamp": "bad", "lamp_word": "failed"},
        ],
    }  # fmt: skip
    diagram = diagram_of_traffic(traffic)
    assert diagram.arms[0] == Arm("v3", "stable", 0.9, 0.91)
    assert diagram.arms[1] == Arm("v4 fp16", "canary", 0.1, None, "bad", "failed")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.05, "5%"), (0.0125, "1.25%"), (1, "100%"), (0, "0%"), (0.9994, "99.9%"), (None, "–")],
)
def test_percentages_are_short(share, text):
    assert percent_text(share) == text


shares = st.one_of(st.none(), st.floats(0, 1))
arms = st.builds(
    Arm,
    label=st.text(max_size=20),
    role=st.sampled_from(["stable", "canary", "shadow", "idle"]),
    configured=st.floats(0, 1),
    observed=shares,
    lamp=st.sampled_from(["good", "busy", "bad", "idle"]),
    lamp_word=st.text(max_size=20),
)
# Text of models and states never holds what XML cannot say; names are validated long before.
readable = st.builds(Diagram, st.just("m"), st.lists(arms, max_size=5).map(tuple), shares)


@given(readable)
def test_every_diagram_draws_with_finite_numbers(diagram):
    for svg in (small_svg(diagram), large_svg(diagram)):
        assert "nan" not in re.sub(
            r"<(text|title|desc)[^>]*>.*?</\1>|aria-label=\"[^\"]*\"", "", svg, flags=re.DOTALL
        )
        assert svg.count("<svg") == svg.count("</svg>")
