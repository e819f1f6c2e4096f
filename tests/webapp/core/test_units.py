"""Numbers for people: units always, three significant digits, a dash for the unknown."""

from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template

from webapp.core.templatetags import units

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filter_", "value", "shown"),
    [
        (units.number, 0, "0"),
        (units.number, 12345, "12,345"),
        (units.number, 12.345, "12.3"),
        (units.number, 0.001234, "0.00123"),
        (units.number, 1234567.8, "1,234,568"),
        (units.bytes, 0, "0 B"),
        (units.bytes, 1023, "1023 B"),
        (units.bytes, 1536, "1.50 KiB"),
        (units.bytes, 20 * 1024**3, "20.0 GiB"),
        (units.bytes, 3 * 1024**4, "3.00 TiB"),
        (units.duration, 0.0000123, "12.3 µs"),
        (units.duration, 0.01234, "12.3 ms"),
        (units.duration, 4.5, "4.50 s"),
        (units.duration, 200, "3 min 20 s"),
        (units.duration, 7500, "2 h 5 min"),
        (units.duration, 86_400, "1 d"),
        (units.duration, timedelta(minutes=3), "3 min"),
        (units.duration, -2, "-2.00 s"),
        (units.milliseconds, 1.234, "1.23 ms"),
        (units.percent, 0.05, "5%"),
        (units.percent, 0.0005, "0.05%"),
        (units.percent, 0.9987, "99.9%"),
        (units.percent, 0, "0%"),
        (units.rate, 240, "240/s"),
        (units.delta, 5.2, "▲ +5.20"),
        (units.delta, -3, "▼ -3.00"),
        (units.delta, 0, "= 0"),
    ],
)
def test_known_values(filter_, value, shown):
    assert filter_(value) == shown


@pytest.mark.parametrize(
    "filter_",
    [units.number, units.bytes, units.duration, units.milliseconds, units.percent, units.rate,
     units.delta, units.rel_time],
)  # fmt: skip
@pytest.mark.parametrize("value", [None, ""])
def test_the_unknown_is_a_dash_and_never_zero(filter_, value):
    assert filter_(value) == "–"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "now"), (42, "42 s ago"), (200, "3 min ago"), (7300, "2 h ago"), (400_000, "5 d ago"),
     (-3600, "in 60 min")],
)  # fmt: skip
def test_moments_are_relative(seconds, words):
    assert units.ago(NOW - timedelta(seconds=seconds), now=NOW) == words


def test_a_moment_carries_the_exact_one():
    html = units.rel_time(NOW)
    assert 'datetime="2030-01-01T12:00:00+00:00"' in html


def test_the_unknown_explains_itself():
    page = Template('{% load units %}{{ value|unknown:"no traffic yet" }}')
    assert 'title="no traffic yet"' in page.render(Context({"value": None}))
    assert page.render(Context({"value": 0})) == "0"


def test_states_have_a_tone_an_icon_and_a_word():
    page = Template("{% load ui %}{% state_badge state %}")
    html = page.render(Context({"state": "ROLLED_BACK"}))
    assert "badge-bad" in html
    assert "rolled back" in html
    assert "<use " in html
    assert "badge-idle" in page.render(Context({"state": "NEVER_HEARD_OF"}))
    assert "&lt;b&gt;" in page.render(Context({"state": "<b>"}))
