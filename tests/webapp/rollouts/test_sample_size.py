"""How many requests a step needs, against the figures of the reference."""

import pytest

from webapp.rollouts.plan import Plan, Step, plan_read
from webapp.rollouts.sample_size import (
    requests_to_detect,
    seconds_for,
    seconds_for_plan,
    seconds_left,
)


@pytest.mark.parametrize(
    ("stable", "canary", "requests"),
    [
        (0.001, 0.01, 591),
        (0.005, 0.01, 3641),
        (0.005, 0.03, 266),
        (0.01, 0.02, 1807),
        (0.01, 0.05, 183),
    ],
)
def test_requests_to_tell_two_error_rates_apart(stable, canary, requests) -> None:
    assert requests_to_detect(stable, canary) == requests


def test_a_step_takes_its_hold_time_or_as_long_as_its_sample_needs() -> None:
    step = Step(0.01, hold_seconds=300, min_requests=300)
    assert seconds_for(step, 1000) == 300
    assert seconds_for(step, 10) == pytest.approx(3000)
    assert seconds_for(step, 0) is None
    assert seconds_for(Step(1.0, 60, 0), None) == 60


def test_a_plan_takes_the_sum_and_is_unknown_without_traffic() -> None:
    assert seconds_for_plan(Plan(), 10_000) == pytest.approx(300 + 600 + 600 + 900 + 900 + 1800)
    assert seconds_for_plan(Plan(), None) is None
    assert seconds_for_plan(plan_read([1.0], None, bake_seconds=9), None) == 9


def test_time_left_follows_from_the_canarys_part_of_the_traffic() -> None:
    assert seconds_left(86, 100, 0.02) == pytest.approx(43)
    assert seconds_left(0, None, 0.02) == 0
    assert seconds_left(86, None, 0.02) is None
    assert seconds_left(86, 100, 0.0) is None
