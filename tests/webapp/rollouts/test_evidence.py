"""What a rollout learns from moments of traffic, and the verdict on it."""

import json

import pytest

from tests.webapp.rollouts.traffic_source import moments, tally
from webapp.rollouts.analysis import (
    Assignments,
    hard_stop,
    judge,
    judge_bake,
    sample_ratio_p,
)
from webapp.rollouts.choices import Guardrail, Verdict
from webapp.rollouts.evidence import Evidence, Rules, fold
from webapp.rollouts.measurements import Arms, Moment
from webapp.rollouts.plan import Guardrails

RAILS = Guardrails()
RULES = Rules(RAILS)


def verdict_of(evidence: Evidence, *, min_requests: int = 300, rails: Guardrails = RAILS):
    return judge(evidence.counts(), rails, min_requests=min_requests)


def test_equal_versions_pass_once_enough_requests_are_seen():
    evidence = fold(Evidence(), moments(weight=0.1, rate=20, seconds=100), RULES)
    assert verdict_of(evidence, min_requests=100).verdict is Verdict.PASS
    waiting = verdict_of(evidence, min_requests=1000)
    assert waiting.verdict is Verdict.WAITING
    assert "of 1,000 canary requests" in waiting.reason


def test_a_canary_that_fails_one_in_twenty_fails_with_the_numbers_in_the_reason():
    evidence = fold(
        Evidence(), moments(weight=0.1, rate=100, seconds=60, canary=(0.05, 5.0)), RULES
    )
    judgement = verdict_of(evidence)
    assert judgement.verdict is Verdict.FAIL
    assert "of canary requests" in judgement.reason
    assert "0% of stable" in judgement.reason


def test_a_failure_is_not_forgotten_when_later_moments_look_good():
    bad = moments(weight=0.1, rate=100, seconds=30, canary=(0.08, 5.0), stable=(0.005, 5.0))
    good = moments(weight=0.1, rate=100, seconds=300, stable=(0.05, 5.0), start=30, seed=2)
    evidence = fold(Evidence(), bad, RULES)
    assert verdict_of(evidence).verdict is Verdict.FAIL
    assert verdict_of(fold(evidence, good, RULES)).verdict is Verdict.FAIL


def test_a_slower_canary_fails_on_the_latency_guardrail():
    evidence = fold(Evidence(), moments(weight=0.2, rate=80, seconds=80, canary=(0.0, 10.0)), RULES)
    judgement = verdict_of(evidence)
    assert judgement.verdict is Verdict.FAIL
    latency = next(f for f in judgement.findings if f.guardrail is Guardrail.LATENCY)
    assert latency.verdict is Verdict.FAIL


def test_the_latency_limit_is_set_once_from_stable_and_a_given_one_is_kept():
    first = fold(Evidence(), moments(weight=0.1, rate=100, seconds=20), RULES)
    later = fold(first, moments(weight=0.1, rate=100, seconds=10, stable=(0, 50.0)), RULES)
    assert first.slo_bucket is not None
    assert later.slo_bucket == first.slo_bucket
    given = Rules(Guardrails(slo_ms=25))
    evidence = fold(Evidence(), moments(weight=0.1, rate=100, seconds=1), given)
    assert evidence.slo_ms == pytest.approx(25, rel=0.1)


class TestWarmUp:
    RULES = Rules(Guardrails(slo_ms=20))
    COLD = Moment(Arms(tally(60, latency_ms=400), tally(400, latency_ms=400)), at=1, weight=0.05)

    def test_slow_first_answers_of_a_fresh_version_are_not_held_against_it(self):
        evidence = fold(Evidence(), [self.COLD], self.RULES)
        assert evidence.log_l.get(Guardrail.LATENCY) is None
        assert evidence.windows == ()

    def test_what_stable_answered_meanwhile_does_not_count_either(self):
        evidence = fold(Evidence(), [self.COLD], self.RULES)
        assert (evidence.timed.canary.requests, evidence.timed.stable.requests) == (0, 0)
        assert evidence.total.stable.requests == 400

    def test_it_ends_after_fifty_canary_requests_and_begins_again_with_each_step(self):
        warm = fold(Evidence(), [self.COLD, self.COLD], self.RULES)
        assert warm.timed.canary.bad(Guardrail.LATENCY, warm.slo_bucket) == 60
        again = fold(warm.for_next_step(), [self.COLD], self.RULES)
        assert again.timed == warm.timed
        assert again.log_l[Guardrail.LATENCY] == warm.log_l[Guardrail.LATENCY]

    def test_an_error_counts_from_the_first_request_on(self):
        failing = Moment(Arms(tally(40, errors=20), tally(400)), at=1, weight=0.1)
        judgement = verdict_of(fold(Evidence(), [failing], self.RULES), min_requests=10)
        assert judgement.verdict is Verdict.FAIL

    def test_a_cold_canary_with_the_default_guardrails_passes(self):
        cold = Moment(Arms(tally(45, latency_ms=90), tally(400)), at=1, weight=0.1)
        sound = moments(weight=0.1, rate=100, seconds=120, start=2)
        for_steps = fold(Evidence(), [cold, *sound], RULES).for_next_step()
        evidence = fold(for_steps, [cold, *moments(weight=0.1, rate=100, seconds=60)], RULES)
        assert verdict_of(evidence).verdict is Verdict.PASS


def test_a_difference_within_the_noise_of_the_machine_is_not_the_versions():
    quick, late = tally(400, latency_ms=0.3), tally(60, latency_ms=3)
    evidence = fold(
        Evidence(), [Moment(Arms(late, quick), at=t, weight=0.1) for t in range(30)], RULES
    )
    assert evidence.slo_ms == pytest.approx(5.3, rel=0.1)
    assert verdict_of(evidence).verdict is Verdict.PASS
    slow = [Moment(Arms(tally(60, latency_ms=20), quick), at=t, weight=0.1) for t in range(30)]
    assert verdict_of(fold(Evidence(), slow, RULES)).verdict is Verdict.FAIL


def test_more_client_faults_on_the_canary_count_as_worse():
    one = Moment(Arms(tally(50, client_faults=10), tally(50, client_faults=0)), at=1, weight=0.5)
    evidence = fold(Evidence(), [one, one], RULES)
    assert verdict_of(evidence, min_requests=10).verdict is Verdict.FAIL


def test_between_good_and_bad_the_verdict_is_inconclusive():
    few = Moment(Arms(tally(100, errors=2), tally(900)), at=1, weight=0.1)
    judgement = verdict_of(fold(Evidence(), [few], RULES), min_requests=50)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "Errors" in judgement.reason


def test_a_guardrail_that_is_off_neither_stops_nor_shares_the_budget():
    rails = Guardrails(errors=False, latency=False, client_faults=False)
    evidence = fold(
        Evidence(), moments(weight=0.5, rate=100, seconds=30, canary=(0.5, 5.0)), Rules(rails)
    )
    assert verdict_of(evidence, rails=rails).verdict is Verdict.PASS
    assert rails.alpha() == pytest.approx(0.01)


class TestHardStops:
    def test_needs_ten_errors_five_times_stables_rate_and_two_percent(self):
        stable = tally(10_000, errors=10)
        assert hard_stop(tally(400, errors=10), stable, RAILS)
        assert not hard_stop(tally(400, errors=9), stable, RAILS)
        assert not hard_stop(tally(501, errors=10), stable, RAILS)
        assert not hard_stop(tally(400, errors=10), tally(10_000, errors=60), RAILS)

    def test_p99_above_twice_stables_for_three_windows(self):
        rules = Rules(Guardrails(slo_ms=10_000))
        slow = moments(weight=0.5, rate=60, seconds=130, canary=(0.0, 15.0))
        evidence = fold(Evidence(), slow, rules)
        judgement = verdict_of(evidence, rails=rules.guardrails)
        assert judgement.verdict is Verdict.FAIL
        assert "p99 of the canary" in judgement.reason

    def test_two_slow_windows_are_not_enough(self):
        rules = Rules(Guardrails(slo_ms=10_000))
        good = moments(weight=0.5, rate=60, seconds=31)
        slow = moments(weight=0.5, rate=60, seconds=60, canary=(0.0, 15.0), start=31)
        evidence = fold(fold(Evidence(), good, rules), slow, rules)
        assert verdict_of(evidence, rails=rules.guardrails).verdict is Verdict.PASS

    def test_p99_of_few_requests_does_not_count(self):
        rules = Rules(Guardrails(slo_ms=10_000))
        slow = moments(weight=0.5, rate=12, seconds=130, canary=(0.0, 15.0))
        evidence = fold(Evidence(), slow, rules)
        assert verdict_of(evidence, rails=rules.guardrails).verdict is Verdict.PASS

    def test_the_configured_queue_delay_is_allowed_for(self):
        rules = Rules(Guardrails(slo_ms=10_000))
        slow = moments(weight=0.5, rate=60, seconds=130, canary=(0.0, 15.0))
        counts = fold(Evidence(), slow, rules).counts(latency_allowance_ns=50_000_000)
        assert judge(counts, rules.guardrails, min_requests=300).verdict is Verdict.PASS

    def test_while_baking_the_past_of_stable_is_the_measure(self):
        before = fold(Evidence(), moments(weight=0.5, rate=50, seconds=20), RULES).for_next_step()
        alone = moments(weight=1.0, rate=50, seconds=20, canary=(0.05, 5.0))
        evidence = fold(before, alone, RULES)
        assert judge_bake(before.counts(), RAILS).verdict is Verdict.PASS
        assert judge_bake(evidence.counts(), RAILS).verdict is Verdict.FAIL


class TestSampleRatio:
    def test_a_right_split_is_likely_and_a_wrong_one_is_not(self):
        assert sample_ratio_p(Assignments(103, 2000), 0.05) > 0.05
        assert sample_ratio_p(Assignments(160, 2000), 0.05) < 0.001

    def test_below_a_thousand_requests_nothing_is_said(self):
        assert sample_ratio_p(Assignments(300, 999), 0.05) == 1.0

    def test_small_shares_use_the_exact_distribution(self):
        assert sample_ratio_p(Assignments(16, 1000), 0.01) > 0.001
        assert sample_ratio_p(Assignments(30, 1000), 0.01) < 0.001
        assert sample_ratio_p(Assignments(970, 1000), 0.99) < 0.001

    def test_requests_in_flight_may_explain_a_difference(self):
        assert sample_ratio_p(Assignments(60, 2000), 0.05) < 0.001
        assert sample_ratio_p(Assignments(60, 2000), 0.05, in_flight=30) > 0.001

    def test_moments_around_a_switch_are_not_counted(self):
        arms = Arms(tally(10), tally(90))
        evidence = fold(Evidence(), [Moment(arms, at=1, weight=0.1, settled=False)], RULES)
        assert evidence.assignments == Assignments()


class TestSharesOfStickyClients:
    RULES = Rules(RAILS, per_request=False)

    def test_the_seen_share_is_used_instead_of_the_configured_one(self):
        """A header that puts 40% of the requests on a 5% canary must not make it look worse."""
        lucky = Moment(Arms(tally(40, errors=4), tally(60, errors=6)), at=1, weight=0.05)
        sticky = fold(Evidence(), [lucky] * 20, self.RULES)
        assert verdict_of(sticky).verdict is Verdict.PASS


def test_a_share_seen_to_be_larger_than_configured_protects_a_good_canary():
    more = Moment(Arms(tally(40, errors=2), tally(60, errors=3)), at=1, weight=0.05)
    evidence = fold(Evidence(), [more] * 30, RULES)
    assert verdict_of(evidence).verdict is not Verdict.FAIL


def test_evidence_survives_the_row_it_is_kept_in():
    evidence = fold(Evidence(), moments(weight=0.1, rate=50, seconds=70, canary=(0.01, 6.0)), RULES)
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert again == evidence
    assert Evidence.from_json({}) == Evidence()


@pytest.mark.parametrize("seed", range(4))
def test_whole_ladders_of_equal_versions_pass_through_the_real_pipeline(seed):
    evidence, start = Evidence(), 0.0
    for weight in (0.05, 0.25, 0.5):
        traffic = moments(
            weight=weight, rate=30, seconds=120, seed=seed, start=start,
            canary=(0.01, 5.0), stable=(0.01, 5.0),
        )  # fmt: skip
        evidence = fold(evidence.for_next_step(), traffic, RULES)
        start += 120
        assert verdict_of(evidence, min_requests=50).verdict in {
            Verdict.PASS,
            Verdict.INCONCLUSIVE,
        }
