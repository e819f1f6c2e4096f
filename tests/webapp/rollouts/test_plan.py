"""Reading a plan: defaults, quick ladders, and everything that cannot be meant."""

import pytest

from webapp.rollouts.choices import Guardrail
from webapp.rollouts.plan import DEFAULT_LADDER, Plan, PlanProblem, plan_of, plan_read


def pointers(error: PlanProblem) -> set[str]:
    return {pointer for pointer, _ in error.errors}


def test_without_steps_the_ladder_is_one_five_ten_twentyfive_fifty_hundred():
    plan = plan_read(None, None)
    assert plan.steps == DEFAULT_LADDER
    assert [step.weight for step in plan.steps] == [0.01, 0.05, 0.10, 0.25, 0.50, 1.0]
    assert [step.hold_seconds for step in plan.steps] == [300, 600, 600, 900, 900, 1800]
    assert plan.guardrails.enabled() == tuple(Guardrail)


def test_a_ladder_that_stops_below_all_traffic_gets_the_promotion_as_its_last_step():
    plan = plan_read([{"weight": 0.2, "hold_seconds": 2, "min_requests": 5}], None)
    assert [step.weight for step in plan.steps] == [0.2, 1.0]
    assert plan.steps[-1].hold_seconds == 4
    assert plan_read([0.2], None, bake_seconds=7).steps[-1].hold_seconds == 7


def test_a_plan_survives_the_row_it_is_kept_in():
    plan = plan_read(
        [{"weight": 0.1, "hold_seconds": 1, "pause": True}, 1], {"slo_ms": 20, "latency": False}
    )
    row = plan.to_json()
    assert plan_of(row["steps"], row["guardrails"]) == plan
    assert plan.last_step == 1


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [
        ([], "/steps"),
        ("fast", "/steps"),
        ([{"weight": 0}], "/steps/0/weight"),
        ([{"weight": 5}], "/steps/0/weight"),
        ([{"weight": 1.01}], "/steps/0/weight"),
        ([{"weight": float("nan")}], "/steps/0/weight"),
        ([{"weight": True}], "/steps/0/weight"),
        ([{"weight": "0.1"}], "/steps/0/weight"),
        ([{}], "/steps/0/weight"),
        ([{"weight": 0.5}, {"weight": 0.5}], "/steps/1/weight"),
        ([{"weight": 0.5}, {"weight": 0.1}], "/steps/1/weight"),
        ([{"weight": 0.5, "hold_seconds": -1}], "/steps/0/hold_seconds"),
        ([{"weight": 0.5, "min_requests": 1.5}], "/steps/0/min_requests"),
        ([{"weight": 0.5, "pause": "yes"}], "/steps/0/pause"),
        ([{"weight": 0.5, "wait": 1}], "/steps/0/wait"),
        ([0.00001], "/steps/0/weight"),
        ([i / 100 for i in range(1, 70)], "/steps"),
    ],
)
def test_a_ladder_that_cannot_be_meant_is_refused_at_its_place(steps, pointer):
    with pytest.raises(PlanProblem) as refusal:
        plan_read(steps, None)
    assert pointer in pointers(refusal.value)


def test_percent_instead_of_share_is_recognised():
    with pytest.raises(PlanProblem, match=r"Did you mean 0\.05\?"):
        plan_read([{"weight": 5}], None)


@pytest.mark.parametrize(
    ("rails", "pointer"),
    [
        ({"max_errors": 3}, "/guardrails/max_errors"),
        ({"errors": "on"}, "/guardrails/errors"),
        ({"false_stop_budget": 0}, "/guardrails/false_stop_budget"),
        ({"false_stop_budget": 0.9}, "/guardrails/false_stop_budget"),
        ({"slo_ms": -1}, "/guardrails/slo_ms"),
        ({"hard_stop_errors": 2.5}, "/guardrails/hard_stop_errors"),
        ([], "/guardrails"),
    ],
)
def test_a_guardrail_that_cannot_be_meant_is_refused_by_name(rails, pointer):
    with pytest.raises(PlanProblem) as refusal:
        plan_read(None, rails)
    assert pointers(refusal.value) == {pointer}


def test_the_budget_is_split_over_the_guardrails_that_are_on():
    assert plan_read(None, {}).guardrails.alpha() == pytest.approx(0.0025)
    only = {"rejections": False, "client_faults": False, "latency": False}
    assert plan_read(None, only).guardrails.alpha() == pytest.approx(0.01)


def test_the_default_plan_is_the_default_ladder():
    assert Plan() == plan_read(None, None)
