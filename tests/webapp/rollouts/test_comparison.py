"""Side by side: unknown is a dash, small differences have no colour, large ones do."""

from tests.webapp.rollouts.traffic_source import tally
from webapp.rollouts.comparison import comparison_rows
from webapp.rollouts.measurements import Tally
from webapp.rollouts.report import tally_body


def rows(stable: Tally, canary: Tally):
    return {row.label: row for row in comparison_rows(tally_body(stable), tally_body(canary))}


def test_without_requests_everything_is_unknown_and_nothing_is_zero() -> None:
    found = rows(Tally(), Tally())
    assert found.pop("Requests").canary == "0"
    assert {(row.stable, row.canary, row.difference) for row in found.values()} == {("–", "–", "–")}


def test_more_errors_are_bad_and_fewer_are_good() -> None:
    worse = rows(tally(1000, errors=1), tally(100, errors=5))["Error share"]
    better = rows(tally(1000, errors=50), tally(100, errors=0))["Error share"]
    assert (worse.stable, worse.canary, worse.difference) == ("0.1%", "5%", "▲ +4.9%")
    assert (worse.tone, better.tone) == ("bad", "good")


def test_a_little_slower_is_no_colour_and_much_slower_is() -> None:
    assert rows(tally(100, latency_ms=10), tally(100, latency_ms=10.9))["p95"].tone == "idle"
    assert rows(tally(100, latency_ms=10), tally(100, latency_ms=20))["p95"].tone == "bad"


def test_queue_time_is_never_held_against_the_smaller_arm() -> None:
    stable, canary = tally(100, queue_ns=10_000_000), tally(100, queue_ns=900_000_000)
    row = rows(stable, canary)["Queue time"]
    assert (row.stable, row.canary, row.tone) == ("100 µs", "9.00 ms", "idle")


def test_percentiles_come_from_merged_histograms() -> None:
    merged = tally(99, latency_ms=1) + tally(1, latency_ms=100)
    body = tally_body(merged)
    assert body["latency_ms"]["p50"] < 1.1
    assert body["latency_ms"]["p99"] < 1.1
    slow = tally(98, latency_ms=1) + tally(2, latency_ms=100)
    assert (slow.percentile_ms(0.99) or 0) > 90
