import re

from django.template import Context, Template

from webapp.telemetry.sparkline import HEIGHT, WIDTH, sparkline_svg


def polylines(svg: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, point.split(","))) for point in points.split()]  # type: ignore[misc]
        for points in re.findall(r'points="([^"]*)"', svg)
    ]


def test_gap_splits_the_line() -> None:
    first, second = polylines(sparkline_svg([1, 2, None, 4, 4], label="requests"))
    assert (len(first), len(second)) == (2, 2)


def test_lies_within_its_box_and_starts_at_zero() -> None:
    (points,) = polylines(sparkline_svg([0, 5, 10], label="requests"))
    assert [x for x, _ in points] == [0, WIDTH / 2, WIDTH]
    assert points[0][1] > points[1][1] > points[2][1] >= 0
    assert points[0][1] < HEIGHT


def test_flat_zero_lies_on_the_ground() -> None:
    (points,) = polylines(sparkline_svg([0, 0], label="idle"))
    assert points[0][1] == points[1][1] == HEIGHT - 2


def test_label_is_escaped() -> None:
    assert "<b>" not in sparkline_svg([1], label="<b>")


def test_tag_shows_a_dash_for_what_was_never_measured() -> None:
    template = Template('{% load sparklines %}{% sparkline values "requests per second" %}')
    assert "–" in template.render(Context({"values": [None, None]}))
    assert 'aria-label="requests per second"' in template.render(Context({"values": [1, 2]}))
