from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from tests.webapp.telemetry.conftest import NOW
from webapp.telemetry.grid import EVERYTHING, Grid, by_everything, by_version
from webapp.telemetry.models import ServingSample
from webapp.telemetry.ranges import KEPT, MAX_POINTS, RANGES, Window, resolution_of, window_for


def sample(second: float, *, runtime: int = 1, version: int = 1, **fields: object) -> ServingSample:
    return ServingSample(
        at=NOW + timedelta(seconds=second),
        runtime_id=runtime,
        model_name="resnet50",
        version=version,
        arm="stable",
        **fields,
    )


def grid_of(*covered: tuple[int, int], step: int = 1, count: int = 5) -> Grid:
    """Steps end at NOW+step, NOW+2·step …; `covered` are (runtime, second)."""
    window = Window(until=NOW + timedelta(seconds=step * count), step=step, count=count)
    grid = Grid(window, [by_everything, by_version])
    for runtime, second in covered:
        grid.cover(runtime_id=runtime, at=NOW + timedelta(seconds=second), span_ms=1000)
    return grid


def test_unknown_is_a_gap_and_known_idle_is_zero() -> None:
    grid = grid_of((1, 1), (1, 2), (1, 4))
    grid.add(sample(2, requests=6, pending=0, latency={"40": 6}))
    series = grid.series(("resnet50", 1), "requests_per_second", "latency_p95_ms", "pending")
    assert series["requests_per_second"] == [0, 6, None, 0, None]
    assert series["pending"] == [0, 0, None, 0, None]
    assert [value is None for value in series["latency_p95_ms"]] == [True, False, True, True, True]


def test_rate_is_over_the_time_the_runtime_was_seen() -> None:
    grid = grid_of(step=10, count=1)
    grid.cover(runtime_id=1, at=NOW + timedelta(seconds=10), span_ms=4000)
    grid.add(sample(10, requests=20))
    assert grid.series(EVERYTHING, "requests_per_second")["requests_per_second"] == [5]
    assert grid.totals(EVERYTHING).rate == 5


def test_missed_tick_is_averaged_into_the_next_but_a_pause_is_a_gap() -> None:
    grid = grid_of((1, 1), count=20)
    grid.cover(runtime_id=1, at=NOW + timedelta(seconds=3), span_ms=2010)
    grid.cover(runtime_id=1, at=NOW + timedelta(seconds=12), span_ms=9000)
    unknown = grid.unknown(EVERYTHING)
    assert unknown[:12] == [False, False, False, *[True] * 8, False]


def test_rates_of_two_runtimes_add_up_each_over_its_own_time() -> None:
    grid = grid_of((1, 1), (2, 1), count=1)
    grid.cover(runtime_id=2, at=NOW + timedelta(seconds=1), span_ms=1000)
    grid.add(sample(1, requests=10))
    grid.add(sample(1, runtime=2, requests=10))
    assert grid.series(EVERYTHING, "requests_per_second")["requests_per_second"] == [15]


def test_model_is_unknown_while_its_own_runtime_is_silent() -> None:
    grid = grid_of((1, 1), (2, 1), (2, 2), count=2)
    grid.add(sample(1, runtime=1, requests=10))
    assert grid.series(("resnet50", 1), "requests_per_second")["requests_per_second"] == [10, None]


def test_gauges_peak_within_a_step_and_add_over_versions() -> None:
    grid = grid_of((1, 1), (1, 2), step=2, count=1)
    grid.add(sample(1, pending=4))
    grid.add(sample(2, pending=7))
    grid.add(sample(2, version=2, pending=1))
    assert grid.series(EVERYTHING, "pending")["pending"] == [8]


def test_gauge_that_the_runtime_never_tells_is_unknown_even_when_idle() -> None:
    grid = grid_of((1, 1), (1, 2), count=2)
    grid.add(sample(1, requests=1, pending=0, inflight=None))
    series = grid.series(("resnet50", 1), "pending", "inflight")
    assert series == {"pending": [0, 0], "inflight": [None, None]}


def test_busiest_versions_come_first() -> None:
    grid = grid_of((1, 1))
    grid.add(sample(1, version=1, requests=1))
    grid.add(sample(1, version=2, requests=9))
    assert grid.busiest()[:2] == [EVERYTHING, ("resnet50", 2)]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=30))
def test_no_request_is_lost_on_the_grid(drawn: list[tuple[int, int]]) -> None:
    grid = grid_of(*((1, second) for second in range(1, 6)))
    for second, requests in drawn:
        grid.add(sample(second, requests=requests))
    total = sum(requests for _, requests in drawn)
    assert grid.totals(EVERYTHING).requests == total
    rates = grid.series(EVERYTHING, "requests_per_second")["requests_per_second"]
    assert sum(rate or 0 for rate in rates) == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "step"), [("5m", 1), ("15m", 1), ("1h", 10), ("6h", 30), ("24h", 120), ("7d", 720)]
)
def test_each_range_has_a_step_its_samples_fill(name: str, step: int) -> None:
    now = NOW + timedelta(seconds=3.4)
    window = window_for(length=RANGES[name], until=now, now=now)
    assert window.step == step
    assert window.count <= MAX_POINTS
    assert RANGES[name] <= KEPT[resolution_of(window)]
    assert now <= window.until < now + timedelta(seconds=step)


def test_past_window_uses_the_samples_that_are_left_of_it() -> None:
    window = window_for(length=timedelta(minutes=5), until=NOW - timedelta(hours=2), now=NOW)
    assert window.step == 10


def test_moment_of_a_step_lies_in_that_step() -> None:
    window = Window(until=NOW, step=10, count=6)
    assert [window.index_of(window.moment(i)) for i in range(6)] == list(range(6))
