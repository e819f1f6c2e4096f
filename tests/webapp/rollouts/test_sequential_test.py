"""The sequential test against simulated traffic: it seldom stops a good canary and soon a bad one."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from webapp.rollouts.analysis import (
    NO_EVIDENCE,
    RATIOS,
    log_evidence,
    log_l_with,
    log_limit,
    log_ratios,
)

LADDER = ((0.05, 900), (0.10, 900), (0.25, 900), (0.50, 900))  # an hour, as in the reference


@dataclass(frozen=True)
class Outcome:
    stopped: float  # share of the runs
    median_minutes: float
    median_canary_requests: float


def simulate(*, rate: float, canary: float, stable: float, runs: int, alpha: float = 0.01):
    """Rollouts over the ladder, one second at a time, all runs at once."""
    rng = np.random.default_rng(20240817)
    log_l = np.zeros((len(RATIOS), runs))
    seen = np.zeros(runs)
    stopped_at = np.full(runs, np.nan)
    clock = 0
    for share, seconds in LADDER:
        up, down = log_ratios(share)
        requests = rng.poisson(rate, (seconds, runs))
        on_canary = rng.binomial(requests, share)
        canary_bad = rng.binomial(on_canary, canary).cumsum(0)
        stable_bad = rng.binomial(requests - on_canary, stable).cumsum(0)
        path = log_l[:, None, :] + np.stack(
            [canary_bad * u + stable_bad * d for u, d in zip(up, down, strict=True)]
        )
        top = path.max(0)
        evidence = top + np.log(np.exp(path - top).mean(0))
        hit = evidence >= log_limit(alpha)
        first = np.where(hit.any(0), hit.argmax(0), seconds - 1)
        running = np.isnan(stopped_at)
        seen[running] += on_canary.cumsum(0)[first, np.arange(runs)][running]
        now = running & hit.any(0)
        stopped_at[now] = clock + first[now]
        log_l = path[:, -1, :]
        clock += seconds
    ended = ~np.isnan(stopped_at)
    if not ended.any():
        return Outcome(0.0, math.nan, math.nan)
    return Outcome(ended.mean(), np.median(stopped_at[ended]) / 60, np.median(seen[ended]))


@pytest.mark.parametrize("rate", [0.5, 2, 10, 50])
def test_an_equal_canary_is_stopped_in_less_than_one_rollout_of_a_hundred(rate):
    assert simulate(rate=rate, canary=0.005, stable=0.005, runs=1500).stopped < 0.01


@pytest.mark.parametrize("base", [0.0005, 0.05])
def test_the_false_stop_budget_holds_for_other_error_rates_too(base):
    assert simulate(rate=20, canary=base, stable=base, runs=800).stopped < 0.01


def test_splitting_the_budget_keeps_the_whole_rollout_under_it():
    stopped = simulate(rate=50, canary=0.005, stable=0.005, runs=1500, alpha=0.01 / 4).stopped
    assert stopped < 0.01 / 2


@pytest.mark.parametrize(
    ("rate", "minutes", "requests"), [(2, 23, 274), (10, 7.0, 214), (50, 1.3, 206)]
)
def test_a_canary_that_fails_six_times_as_often_is_caught_as_in_the_reference(
    rate, minutes, requests
):
    outcome = simulate(rate=rate, canary=0.03, stable=0.005, runs=300)
    assert outcome.stopped > 0.99
    assert outcome.median_minutes == pytest.approx(minutes, rel=0.35)
    assert outcome.median_canary_requests == pytest.approx(requests, rel=0.35)


def test_on_a_quiet_service_an_hour_catches_about_half():
    assert 0.3 < simulate(rate=0.5, canary=0.03, stable=0.005, runs=300).stopped < 0.7


def test_a_broken_canary_is_caught_within_a_few_requests():
    outcome = simulate(rate=10, canary=0.30, stable=0.005, runs=200)
    assert outcome.stopped == 1
    assert outcome.median_canary_requests < 20


def test_five_percent_failures_are_caught_within_a_hundred_canary_requests():
    outcome = simulate(rate=200, canary=0.05, stable=0.0, runs=200, alpha=0.01 / 4)
    assert outcome.stopped == 1
    assert outcome.median_canary_requests < 150


def test_a_canary_that_fails_less_often_is_never_stopped():
    assert simulate(rate=20, canary=0.001, stable=0.01, runs=300).stopped == 0


def test_counts_of_a_second_weigh_as_much_as_the_same_events_one_by_one():
    together = log_l_with(NO_EVIDENCE, 0.2, 2, 3)
    apart = NO_EVIDENCE
    for canary_bad, stable_bad in [(1, 0), (0, 1), (0, 1), (1, 0), (0, 1)]:
        apart = log_l_with(apart, 0.2, canary_bad, stable_bad)
    assert together == pytest.approx(apart)


def test_one_arm_alone_teaches_nothing():
    assert log_l_with(NO_EVIDENCE, 0.0, 0, 50) == NO_EVIDENCE
    assert log_l_with(NO_EVIDENCE, 1.0, 50, 0) == NO_EVIDENCE


def test_a_share_taken_too_high_only_makes_it_slower():
    right, too_high = log_l_with(NO_EVIDENCE, 0.05, 3, 7), log_l_with(NO_EVIDENCE, 0.15, 3, 7)
    assert log_evidence(too_high) < log_evidence(right)


def test_no_evidence_is_a_fair_bet():
    assert log_evidence(NO_EVIDENCE) == pytest.approx(0.0)
