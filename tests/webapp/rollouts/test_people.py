"""What people do to a rollout: each move, its refusals, and two of them at once."""

import pytest

from tests.webapp.rollouts.yard import Behaviour, Yard
from webapp.audit.models import AuditEvent
from webapp.core.errors import Conflict, PermissionRefused
from webapp.rollouts.choices import PauseReason, RolloutState
from webapp.rollouts.services import (
    rollout_abort,
    rollout_advance,
    rollout_pause,
    rollout_promote,
    rollout_resume,
)

SLOW = [
    {"weight": 0.1, "hold_seconds": 500, "min_requests": 100_000},
    {"weight": 0.5, "hold_seconds": 500, "min_requests": 100_000},
    {"weight": 1.0, "hold_seconds": 500},
]


def test_abort_gives_all_traffic_back_before_it_answers(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    assert yard.applied() == {1: 0.9, 2: 0.1}
    aborted = rollout_abort(rollout=rollout, actor=yard.olga)
    assert aborted.state == RolloutState.ABORTED
    assert yard.applied() == {1: 1.0}
    assert aborted.reason == "Aborted by olga."
    assert AuditEvent.objects.filter(action="rollout.abort").get().actor == yard.olga


def test_abort_before_the_canary_is_loaded_moves_nothing(yard: Yard) -> None:
    rollout = yard.start(yard.version(2))
    before = yard.generation()
    assert rollout_abort(rollout=rollout, actor=yard.olga).state == RolloutState.ABORTED
    assert yard.generation() == before


def test_abort_of_a_baking_promotion_goes_back_to_the_old_version(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, [{"weight": 1.0, "hold_seconds": 500}])
    baking = yard.until_state(rollout, RolloutState.BAKING)
    assert rollout_abort(rollout=baking, actor=yard.olga).state == RolloutState.ABORTED
    assert yard.applied() == {1: 1.0}
    assert yard.model.stages.get(stage="production").version.number == 1


def test_abort_while_the_runtime_is_away_ends_when_it_is_back(yard: Yard, canary) -> None:
    from webapp.serving.services import traffic_push

    rollout = yard.begun(canary, SLOW)
    yard.fake.down = True
    assert rollout_abort(rollout=rollout, actor=yard.olga).state == RolloutState.ROLLING_BACK
    yard.fake.down = False
    traffic_push(model=yard.model)
    yard.pass_seconds(1)
    assert yard.now(rollout).state == RolloutState.ABORTED


def test_abort_succeeds_though_the_ladder_moved_meanwhile(yard: Yard, canary) -> None:
    seen = yard.begun(canary, SLOW)
    rollout_advance(rollout=yard.now(seen), actor=yard.olga)
    assert rollout_abort(rollout=seen, actor=yard.world.ada).state == RolloutState.ABORTED


def test_pause_keeps_the_share_and_resume_goes_on(yard: Yard, canary) -> None:
    rollout = yard.begun(canary)
    paused = rollout_pause(rollout=rollout, actor=yard.olga)
    assert (paused.state, paused.pause_reason) == (RolloutState.PAUSED, PauseReason.MANUAL)
    yard.pass_seconds(40)
    found = yard.now(rollout)
    assert (found.state, found.step) == (RolloutState.PAUSED, 0)
    assert yard.applied() == {1: 0.9, 2: 0.1}
    rollout_resume(rollout=found, actor=yard.olga)
    yard.until_state(rollout, RolloutState.SUCCEEDED)


def test_a_paused_rollout_is_still_guarded(yard: Yard, canary) -> None:
    rollout = rollout_pause(rollout=yard.begun(canary, SLOW), actor=yard.olga)
    yard.behaviours[2] = Behaviour(error_rate=0.3)
    yard.until_state(rollout, RolloutState.ROLLED_BACK, within=30)


def test_advance_goes_to_the_next_step_without_waiting(yard: Yard, canary) -> None:
    rollout = rollout_advance(rollout=yard.begun(canary, SLOW), actor=yard.olga)
    assert (rollout.state, rollout.step) == (RolloutState.PROGRESSING, 1)
    assert yard.applied() == {1: 0.5, 2: 0.5}
    promoted = rollout_advance(rollout=rollout, actor=yard.olga)
    assert promoted.state == RolloutState.PROMOTING
    yard.pass_seconds(1)
    done = rollout_advance(rollout=yard.now(rollout), actor=yard.olga)
    assert done.state == RolloutState.SUCCEEDED


def test_promote_takes_all_traffic_at_once_and_bakes(yard: Yard, canary) -> None:
    rollout = rollout_promote(rollout=yard.begun(canary, SLOW), actor=yard.olga)
    assert rollout.state == RolloutState.PROMOTING
    assert yard.applied() == {2: 1.0}
    assert yard.model.stages.get(stage="production").version.number == 2
    yard.pass_seconds(1)
    assert yard.now(rollout).state == RolloutState.BAKING


def test_a_step_that_asks_for_a_person_waits_for_one(yard: Yard, canary) -> None:
    steps = [{"weight": 0.2, "hold_seconds": 2, "min_requests": 5, "pause": True}, {"weight": 0.5}]
    rollout = yard.begun(canary, steps)
    paused = yard.until_state(rollout, RolloutState.PAUSED)
    assert paused.pause_reason == PauseReason.STEP_PAUSE
    yard.pass_seconds(20)
    assert yard.now(rollout).state == RolloutState.PAUSED
    resumed = rollout_resume(rollout=yard.now(rollout), actor=yard.olga)
    assert (resumed.state, resumed.step) == (RolloutState.PROGRESSING, 1)


class TestTwoAtOnce:
    def test_the_second_of_two_equal_clicks_is_refused(self, yard: Yard, canary) -> None:
        rollout = yard.begun(canary, SLOW)
        hers, his = yard.now(rollout), yard.now(rollout)
        rollout_advance(rollout=hers, actor=yard.olga)
        with pytest.raises(Conflict) as refusal:
            rollout_advance(rollout=his, actor=yard.world.ada)
        assert refusal.value.reason == "ROLLOUT_MOVED"
        assert yard.now(rollout).step == 1
        assert yard.applied() == {1: 0.5, 2: 0.5}

    def test_measurements_do_not_get_in_the_way_of_people(self, yard: Yard, canary) -> None:
        seen = yard.begun(canary, SLOW)
        yard.pass_seconds(10)
        moved = rollout_advance(rollout=seen, actor=yard.olga)
        assert moved.learned.total.canary.requests > 50, "what was measured meanwhile is kept"

    def test_only_one_rollout_of_a_model_may_be_active(self, yard: Yard, canary) -> None:
        yard.begun(canary, SLOW)
        third = yard.version(3)
        with pytest.raises(Conflict) as refusal:
            yard.start(third)
        assert refusal.value.reason == "ROLLOUT_ACTIVE"


def test_superseding_takes_the_old_canary_out_and_keeps_stable(yard: Yard, canary) -> None:
    old = yard.begun(canary, SLOW)
    third = yard.version(3)
    yard.deploy(third)
    new = yard.start(third, SLOW, supersede=True)
    assert yard.now(old).state == RolloutState.SUPERSEDED
    assert yard.applied() == {1: 1.0}
    yard.pass_seconds(2)
    assert (yard.now(new).stable.number, yard.applied()) == (1, {1: 0.9, 3: 0.1})


@pytest.mark.parametrize(
    ("state", "moves"),
    [
        (RolloutState.PROGRESSING, [rollout_resume]),
        (RolloutState.BAKING, [rollout_pause, rollout_resume, rollout_promote]),
        (
            RolloutState.SUCCEEDED,
            [rollout_pause, rollout_resume, rollout_advance, rollout_promote, rollout_abort],
        ),
    ],
)
def test_moves_a_state_does_not_allow_are_refused_and_change_nothing(
    yard: Yard, canary, state, moves
) -> None:
    rollout = yard.until_state(yard.start(canary), state)
    for move in moves:
        with pytest.raises(Conflict) as refusal:
            move(rollout=yard.now(rollout), actor=yard.olga)
        assert refusal.value.reason == "ROLLOUT_STATE"
    assert yard.now(rollout).row_version == rollout.row_version


def test_a_viewer_may_not_touch_it(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    for move in (rollout_pause, rollout_advance, rollout_promote, rollout_abort):
        with pytest.raises(PermissionRefused):
            move(rollout=rollout, actor=yard.world.vic)
    assert yard.now(rollout).state == RolloutState.PROGRESSING
