"""Decisions are legal in every situation, and every rollout comes to an end."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.webapp.rollouts.traffic_source import tally
from webapp.rollouts.choices import PauseReason, RolloutState as S
from webapp.rollouts.decision import Action, CanaryHealth, Decision, Snapshot, decide
from webapp.rollouts.evidence import Evidence, Rules, fold
from webapp.rollouts.measurements import Arms, Moment
from webapp.rollouts.plan import Guardrails, Plan, plan_read
from webapp.rollouts.state_machine import (
    ACTIVE_STATES,
    ALLOWED_IN,
    ALLOWED_MOVES,
    EXPOSED_STATES,
    TERMINAL_STATES,
    Move,
    moves_in,
)

PLAN = plan_read(
    [
        {"weight": 0.1, "hold_seconds": 10, "min_requests": 50},
        {"weight": 0.5, "hold_seconds": 10, "min_requests": 50},
        {"weight": 1.0, "hold_seconds": 10},
    ],
    {"waiting_limit_seconds": 100, "unavailable_limit_seconds": 30},
)


def learned(canary_errors: int, canary: int = 100, stable: int = 900) -> Evidence:
    arms = Arms(tally(canary, errors=canary_errors), tally(stable))
    # Not settled: the split, which would have to follow the share, has tests of its own.
    return fold(Evidence(), [Moment(arms, at=1, weight=0.1, settled=False)], Rules(Guardrails()))


NOTHING, GOOD, DOUBTFUL, BAD = Evidence(), learned(0), learned(2), learned(30)

TARGET: dict[Action, str | None] = {
    Action.HOLD: None,
    Action.BEGIN: S.PROGRESSING,
    Action.ADVANCE: S.PROGRESSING,
    Action.PROMOTE: S.PROMOTING,
    Action.BAKE: S.BAKING,
    Action.SUCCEED: S.SUCCEEDED,
    Action.PAUSE: S.PAUSED,
    Action.RESUME: S.PROGRESSING,
    Action.WITHDRAW: S.PAUSED,
    Action.ROLL_BACK: S.ROLLING_BACK,
    Action.SETTLE: S.ROLLED_BACK,
    Action.FAIL: S.FAILED,
}

seconds = st.one_of(st.just(0.0), st.floats(0, 5000))
snapshots = st.builds(
    Snapshot,
    state=st.sampled_from(sorted(ACTIVE_STATES)),
    plan=st.sampled_from([PLAN, Plan(), plan_read([1.0], None), plan_read([0.5], None)]),
    step=st.just(0),
    evidence=st.sampled_from([NOTHING, GOOD, DOUBTFUL, BAD]),
    pause_reason=st.sampled_from(PauseReason.values),
    weight=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    held_seconds=seconds,
    step_seconds=seconds,
    state_seconds=seconds,
    metrics_age_seconds=st.one_of(st.none(), seconds),
    canary=st.sampled_from(CanaryHealth),
    canary_reason=st.sampled_from(["", "out of memory"]),
    canary_down_seconds=seconds,
    unconfirmed=st.sampled_from([(), ("edge-1",)]),
    changed_outside=st.booleans(),
    per_request=st.booleans(),
    in_flight=st.integers(0, 100),
)


@settings(deadline=None)
@given(snapshots, st.integers(0, 5))
def test_no_decision_is_an_illegal_move_and_each_says_why(snapshot: Snapshot, step: int) -> None:
    snapshot = replace(snapshot, step=min(step, snapshot.plan.last_step))
    decision = decide(snapshot)
    target = TARGET.get(decision.action, snapshot.state)
    if target is not None:
        assert target in ALLOWED_MOVES[snapshot.state]
        assert decision.reason
    if decision.action is Action.PAUSE:
        assert decision.pause_reason
    if decision.action is Action.STEP_BACK:
        assert snapshot.step > 0


@settings(deadline=None)
@given(snapshots)
def test_a_failing_canary_with_traffic_never_gets_more(snapshot: Snapshot) -> None:
    assume(snapshot.state in EXPOSED_STATES)
    decision = decide(replace(snapshot, evidence=BAD, weight=0.5))
    assert decision.action not in {Action.ADVANCE, Action.PROMOTE, Action.RESUME, Action.SUCCEED}
    if snapshot.state in {S.PROGRESSING, S.PAUSED}:
        assert decision.action is Action.ROLL_BACK


@settings(deadline=None)
@given(snapshots)
def test_nobody_blind_goes_forward(snapshot: Snapshot) -> None:
    blind = replace(snapshot, metrics_age_seconds=60, step_seconds=60, state_seconds=60)
    if blind.state in {S.PROGRESSING, S.BAKING}:
        assert decide(blind).action not in {Action.ADVANCE, Action.PROMOTE, Action.SUCCEED}


# -- every path ends ------------------------------------------------------------------------


def applied(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """What the services do to the row, in small."""
    action, plan = decision.action, snapshot.plan
    changes: dict[str, Any]
    anew: dict[str, Any] = {"held_seconds": 0.0, "step_seconds": 0.0, "evidence": NOTHING}
    match action:
        case Action.HOLD:
            return snapshot
        case Action.BEGIN:
            changes = {"step": 0, "weight": plan.steps[0].weight, **anew}
        case Action.ADVANCE:
            step = snapshot.step + 1
            changes = {"step": step, "weight": plan.steps[step].weight, **anew}
        case Action.STEP_BACK:
            step = snapshot.step - 1
            return replace(snapshot, step=step, weight=plan.steps[step].weight, **anew)
        case Action.PROMOTE:
            changes = {"step": plan.last_step, "weight": 1.0, **anew}
        case Action.WITHDRAW | Action.ROLL_BACK:
            changes = {"weight": 0.0, **anew}
        case Action.RESUME:
            changes = {"weight": snapshot.current.weight, "step_seconds": 0.0}
        case _:
            changes = {}
    return replace(
        snapshot,
        state=TARGET[action] or snapshot.state,
        pause_reason=decision.pause_reason,
        state_seconds=0.0,
        **changes,
    )


def turn(snapshot: Snapshot, weather: str) -> Snapshot:
    """Five seconds go by."""
    calm = weather in {"calm", "bad"}
    evidence = {"calm": GOOD, "bad": BAD, "doubt": DOUBTFUL}.get(weather, snapshot.evidence)
    down = weather == "down"
    snapshot = replace(
        snapshot,
        evidence=evidence if snapshot.weight else snapshot.evidence,
        held_seconds=snapshot.held_seconds + (5 if calm and snapshot.weight else 0),
        step_seconds=snapshot.step_seconds + 5,
        state_seconds=snapshot.state_seconds + 5,
        metrics_age_seconds=400.0 if weather == "blind" else 1.0,
        canary=CanaryHealth.FAILED if down else CanaryHealth.AVAILABLE,
        canary_down_seconds=snapshot.canary_down_seconds + 5 if down else 0.0,
        unconfirmed=("edge-1",) if weather == "deaf" else (),
        changed_outside=weather == "meddled",
    )
    if snapshot.state in TERMINAL_STATES:
        return snapshot
    decision = decide(snapshot)
    if snapshot.state == S.PAUSED and decision.action is Action.HOLD and weather in {"calm", "bad"}:
        # The documented way out of a pause: a person resumes.
        decision = replace(decision, action=Action.RESUME, reason="resumed")
    return applied(snapshot, decision)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["calm", "bad", "doubt", "down", "blind", "deaf", "meddled"]), max_size=60
    ),
    st.sampled_from(["calm", "bad"]),
    st.sampled_from([PLAN, plan_read([{"weight": 1.0, "hold_seconds": 20}], None)]),
)
def test_every_path_ends(weathers: list[str], finally_: str, plan: Plan) -> None:
    snapshot = Snapshot(state=S.INITIALIZING, plan=plan, step=0, evidence=NOTHING)
    for weather in [*weathers, *([finally_] * 120)]:
        snapshot = turn(snapshot, weather)
    assert snapshot.state in TERMINAL_STATES


def test_terminal_states_have_no_way_out() -> None:
    for state in TERMINAL_STATES:
        assert ALLOWED_MOVES[state] == frozenset()
        assert moves_in(state) == ()


def test_every_active_state_can_be_left() -> None:
    reached = set(TERMINAL_STATES)
    while grown := {s for s, to in ALLOWED_MOVES.items() if to & reached} - reached:
        reached |= grown
    assert reached == set(S.values)


@pytest.mark.parametrize("state", sorted(ACTIVE_STATES))
def test_abort_is_possible_until_the_way_back_has_begun(state: str) -> None:
    assert (Move.ABORT in moves_in(state)) == (state != S.ROLLING_BACK)


def test_people_cannot_ask_for_what_the_machine_forbids() -> None:
    for move, states in ALLOWED_IN.items():
        for state in states:
            assert ALLOWED_MOVES[state], f"{move} in {state}"
