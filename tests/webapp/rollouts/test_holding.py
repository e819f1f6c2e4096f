"""When a rollout does not go on, and what it does instead of guessing."""

from dataclasses import replace

from tests.webapp.rollouts.yard import Behaviour, Yard
from webapp.rollouts.choices import PauseReason, RolloutState
from webapp.rollouts.services import rollout_resume
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment, TrafficApplied
from webapp.serving.services import traffic_set

LONG = [
    {"weight": 0.05, "hold_seconds": 20, "min_requests": 50},
    {"weight": 0.25, "hold_seconds": 20, "min_requests": 50},
    {"weight": 0.5, "hold_seconds": 20, "min_requests": 50},
]
HALF = [{"weight": 0.5, "hold_seconds": 1000, "min_requests": 50}]


def test_time_alone_is_not_enough(yard: Yard, canary) -> None:
    yard.rate = 2
    rollout = yard.begun(canary, [{"weight": 0.1, "hold_seconds": 5, "min_requests": 50}])
    yard.pass_seconds(30)
    found = yard.now(rollout)
    assert found.state == RolloutState.PROGRESSING
    assert found.verdict == "WAITING"
    assert "of 50 canary requests" in found.reason


def test_requests_alone_are_not_enough(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, [{"weight": 0.5, "hold_seconds": 30, "min_requests": 10}])
    yard.pass_seconds(15)
    found = yard.now(rollout)
    assert (found.state, found.verdict) == (RolloutState.PROGRESSING, "PASS")
    assert found.reason.startswith("Watching at 50%")


def test_without_traffic_it_pauses_and_goes_on_when_traffic_comes(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, guardrails={"waiting_limit_seconds": 20})
    yard.rate = 0
    paused = yard.until_state(rollout, RolloutState.PAUSED)
    assert paused.pause_reason == PauseReason.WAITING_FOR_TRAFFIC
    assert paused.weight == 0.1, "the share stays"
    yard.rate = 100
    yard.until_state(rollout, RolloutState.SUCCEEDED)


def test_between_good_and_bad_it_waits_and_then_asks_a_person(yard: Yard, canary) -> None:
    rails = {
        "waiting_limit_seconds": 15,
        "rejections": False,
        "client_faults": False,
        "latency": False,
    }
    rollout = yard.begun(
        canary, [{"weight": 0.5, "hold_seconds": 3, "min_requests": 10}], guardrails=rails
    )
    yard.add_sample(2, "canary", requests=60, failures=6)  # thirty to one, a hundred would stop it
    yard.pass_seconds(10)
    waiting = yard.now(rollout)
    assert (waiting.state, waiting.verdict) == (RolloutState.PROGRESSING, "INCONCLUSIVE")
    assert "not enough to stop" in waiting.reason
    paused = yard.until_state(rollout, RolloutState.PAUSED)
    assert paused.pause_reason == PauseReason.INCONCLUSIVE
    assert "Errors" in paused.reason


def test_a_split_that_is_not_the_configured_one_pauses_it(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, [{"weight": 0.3, "hold_seconds": 20, "min_requests": 50}])
    table = yard.fake.traffic_get("resnet50")
    assert table is not None
    lying = replace(table, arms=tuple(replace(arm, weight=0.5) for arm in table.arms))
    yard.fake.traffic_delete("resnet50", generation=table.generation)
    yard.fake.traffic_put(lying)
    paused = yard.until_state(rollout, RolloutState.PAUSED)
    assert paused.pause_reason == PauseReason.INCONCLUSIVE
    assert "configured are 30%" in paused.reason


def test_without_measurements_the_hold_time_stands_still(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, [{"weight": 0.05, "hold_seconds": 60, "min_requests": 10}])
    yard.pass_seconds(10)
    held = yard.now(rollout).held_seconds
    yard.pass_blind(40)
    blind = yard.now(rollout)
    assert blind.state == RolloutState.PROGRESSING
    assert blind.held_seconds <= held + 5
    assert blind.reason.startswith("Holding: no measurements for")
    before = yard.now(rollout).held_seconds
    yard.pass_blind(100)
    assert yard.now(rollout).held_seconds == before
    yard.pass_seconds(3)
    assert yard.now(rollout).held_seconds > before


def test_blind_for_five_minutes_it_steps_back_until_the_canary_has_little(
    yard: Yard, canary
) -> None:
    rollout = yard.begun(canary, LONG)
    yard.run_until(rollout, lambda found: found.step == 2)
    yard.pass_seconds(5)
    yard.pass_blind(304)
    back = yard.now(rollout)
    assert (back.state, back.step, back.weight) == (RolloutState.PROGRESSING, 1, 0.25)
    yard.pass_blind(304)
    again = yard.now(rollout)
    assert (again.step, again.weight) == (0, 0.05)
    yard.pass_blind(400)
    assert yard.now(rollout).weight == 0.05, "5% may stay"
    assert yard.applied() == {1: 0.95, 2: 0.05}


def test_blind_at_the_first_step_with_much_traffic_it_takes_the_canary_out(
    yard: Yard, canary
) -> None:
    rollout = yard.begun(canary, HALF)
    yard.pass_blind(312)
    found = yard.now(rollout)
    assert (found.state, found.pause_reason) == (RolloutState.PAUSED, PauseReason.METRICS_STALE)
    assert yard.applied() == {1: 1.0}


class TestCanaryUnavailable:
    def fail(self, yard: Yard, state: str = DeploymentState.FAILED) -> None:
        Deployment.objects.filter(version__number=2).update(state=state, reason="out of memory")

    def test_takes_its_traffic_away_at_once_and_gives_it_back_when_it_returns(
        self, yard: Yard, canary
    ) -> None:
        rollout = yard.begun(canary, HALF)
        self.fail(yard)
        yard.pass_seconds(1)
        found = yard.now(rollout)
        assert found.state == RolloutState.PAUSED
        assert found.pause_reason == PauseReason.CANARY_UNAVAILABLE
        assert "out of memory" in found.reason
        assert yard.applied() == {1: 1.0}
        yard.pass_seconds(30)
        self.fail(yard, DeploymentState.AVAILABLE)
        yard.pass_seconds(1)
        assert yard.now(rollout).state == RolloutState.PROGRESSING
        assert yard.applied() == {1: 0.5, 2: 0.5}

    def test_rolls_back_when_it_does_not_return(self, yard: Yard, canary) -> None:
        rollout = yard.begun(canary, HALF, guardrails={"unavailable_limit_seconds": 30})
        self.fail(yard)
        ended = yard.until_state(rollout, RolloutState.ROLLED_BACK, within=60)
        assert "unavailable for more than 30 s" in ended.reason

    def test_rolls_back_while_baking(self, yard: Yard, canary) -> None:
        rollout = yard.begun(canary, [{"weight": 1.0, "hold_seconds": 100}])
        yard.until_state(rollout, RolloutState.BAKING)
        self.fail(yard)
        yard.pass_seconds(2)
        assert yard.now(rollout).state == RolloutState.ROLLED_BACK
        assert yard.applied() == {1: 1.0}


def test_a_runtime_that_does_not_confirm_holds_the_ladder(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, LONG)
    TrafficApplied.objects.update(generation=0, error="disk full")
    yard.pass_seconds(60)
    found = yard.now(rollout)
    assert (found.state, found.step) == (RolloutState.PROGRESSING, 0)
    assert found.reason == "Waiting for edge-1 (disk full) to apply the share."


def test_traffic_changed_outside_pauses_it_and_resuming_puts_the_share_back(
    yard: Yard, canary
) -> None:
    rollout = yard.begun(canary, HALF)
    arms = [{"version": 1, "role": "stable", "weight": 1.0}]
    traffic_set(model=yard.model, arms=arms, actor=yard.olga, reason="by hand")
    yard.pass_seconds(1)
    found = yard.now(rollout)
    assert (found.state, found.pause_reason) == (RolloutState.PAUSED, PauseReason.OUTSIDE_CHANGE)
    assert yard.applied() == {1: 1.0}, "nobody's change is overwritten unasked"
    rollout_resume(rollout=found, actor=yard.olga)
    assert yard.applied() == {1: 0.5, 2: 0.5}


def test_another_stable_version_before_the_first_share_ends_it_untouched(yard: Yard) -> None:
    third = yard.version(3)
    yard.deploy(third)
    rollout = yard.start(yard.version(2))
    arms = [{"version": 3, "role": "stable", "weight": 1.0}]
    traffic_set(model=yard.model, arms=arms, actor=yard.olga, reason="by hand")
    yard.pass_seconds(1)
    ended = yard.now(rollout)
    assert ended.state == RolloutState.ROLLED_BACK
    assert "became stable meanwhile" in ended.reason
    assert yard.applied() == {3: 1.0}


def test_the_same_table_under_a_new_number_is_no_outside_change(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, HALF)
    yard.model.refresh_from_db()
    arms = yard.model.traffic.arms
    traffic_set(model=yard.model, arms=arms, actor=None, reason="numbered anew")
    yard.pass_seconds(3)
    found = yard.now(rollout)
    assert found.state == RolloutState.PROGRESSING
    assert found.generation == yard.generation()


def test_a_rollback_no_runtime_confirms_ends_as_failed_and_says_so(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, HALF)
    yard.behaviours[2] = Behaviour(error_rate=0.5)
    yard.measure()
    yard.fake.down = True
    yard.clock.advance(1)
    yard.pass_blind(4)
    assert yard.now(rollout).state == RolloutState.ROLLING_BACK
    yard.pass_blind(132)
    ended = yard.now(rollout)
    assert ended.state == RolloutState.FAILED
    assert "edge-1" in ended.reason
    assert yard.table() == {1: 1.0}, "the wish stays and is carried out when the runtime answers"
