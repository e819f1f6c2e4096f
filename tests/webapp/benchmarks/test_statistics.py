import math

import pytest
from hypothesis import given, strategies as st

from webapp.benchmarks.statistics import Window, figures, is_stable, percentile, saturation


def window(*, rate: int, latency_ms: float, errors: int = 0) -> Window:
    return Window(
        seconds=1.0,
        latencies_ns=[round(latency_ms * 1e6)] * rate,
        errors=errors,
        client_cpu_seconds=0.25,
        queue_ns=rate * 1_000_000,
        compute_ns=rate * 2_000_000,
        successes=rate,
        inferences=rate,
        executions=max(rate // 4, 1),
    )


def test_a_percentile_is_the_nearest_rank() -> None:
    values = list(range(1, 101))
    assert [percentile(values, q) for q in (0.5, 0.9, 0.99, 1.0)] == [50, 90, 99, 100]
    assert math.isnan(percentile([], 0.5))


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_and_not_exceeded_by_its_share(
    values: list[int], quantile: float
) -> None:
    values.sort()
    found = percentile(values, quantile)
    assert found in values
    assert sum(value <= found for value in values) >= quantile * len(values) - 1e-9


def test_three_windows_within_ten_percent_are_stable() -> None:
    steady = [window(rate=100, latency_ms=5), window(rate=104, latency_ms=5.2)]
    assert not is_stable(steady)
    assert is_stable([*steady, window(rate=98, latency_ms=4.9)])


@pytest.mark.parametrize("odd", [window(rate=140, latency_ms=5), window(rate=100, latency_ms=9)])
def test_a_window_that_differs_in_rate_or_latency_is_not_stable(odd: Window) -> None:
    steady = window(rate=100, latency_ms=5)
    assert not is_stable([steady, steady, odd])
    assert is_stable([odd, steady, steady, steady])


def test_a_window_without_answers_is_never_stable() -> None:
    assert not is_stable([Window(1.0, [], 3, 0.1)] * 3)


def test_figures_come_from_the_last_three_windows_taken_together() -> None:
    early = window(rate=1000, latency_ms=50, errors=9)
    found = figures([early, *[window(rate=100, latency_ms=4, errors=1)] * 3])
    assert found.requests_per_second == pytest.approx(100)
    assert found.p50_ms == found.p99_ms == pytest.approx(4)
    assert (found.requests, found.errors) == (300, 3)
    assert found.queue_ms == pytest.approx(1)
    assert found.compute_ms == pytest.approx(2)
    assert found.batch_size == pytest.approx(4)
    assert found.client_cpu_percent == pytest.approx(25)


def test_without_server_statistics_queue_compute_and_batch_are_unknown_not_zero() -> None:
    found = figures([Window(1.0, [1_000_000], 0, 0.1)])
    assert (found.queue_ms, found.compute_ms, found.batch_size) == (None, None, None)


def test_saturation_is_the_lowest_rung_that_reaches_nine_tenths_of_the_best() -> None:
    assert saturation([(1, 100), (2, 190), (4, 300), (8, 320), (16, 325)]) == 4


def test_a_ladder_that_ends_before_the_server_does_has_no_saturation() -> None:
    assert saturation([(1, 100), (2, 200), (4, 400)]) is None
    assert saturation([(1, 100)]) is None
