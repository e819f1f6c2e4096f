"""Whatever is killed or doubled, no measurement is taken in twice and none is forgotten."""

from tests.webapp.rollouts.yard import Yard
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.services import rollout_tick, rollouts_tick
from webapp.telemetry.models import ServingSample

SLOW = [{"weight": 0.5, "hold_seconds": 500, "min_requests": 100_000}]


def counted(yard: Yard, rollout) -> int:
    return yard.now(rollout).learned.total.requests


def sampled(rollout) -> int:
    rows = ServingSample.objects.filter(generation__gte=rollout.generation)
    return sum(rows.values_list("requests", flat=True))


def test_turns_taken_twice_at_the_same_moment_count_once(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    for _ in range(10):
        yard.pass_seconds(1, ticking=False)
        rollouts_tick()
        rollouts_tick()
    assert counted(yard, rollout) == sampled(rollout)


def test_after_a_worker_was_away_everything_measured_meanwhile_counts(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    yard.pass_seconds(5)
    held = yard.now(rollout).held_seconds
    yard.pass_seconds(200, ticking=False)
    rollouts_tick()
    found = yard.now(rollout)
    assert counted(yard, rollout) == sampled(rollout)
    assert found.held_seconds <= held + 5, "nobody watched meanwhile, so it was not held"


def test_a_turn_that_breaks_half_way_leaves_nothing_behind(yard: Yard, canary, monkeypatch) -> None:
    rollout = yard.begun(canary, SLOW)
    yard.pass_seconds(1, ticking=False)
    before = yard.now(rollout)

    def breaks(**_: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr("webapp.rollouts.services.tick.rollout_publish", breaks)
        assert rollouts_tick() == 0
    after = yard.now(rollout)
    assert (after.sample_cursor, after.evidence) == (before.sample_cursor, before.evidence)
    rollouts_tick()
    assert counted(yard, rollout) == sampled(rollout)


def test_what_was_measured_before_the_rollout_is_not_its_own(yard: Yard, canary) -> None:
    yard.pass_seconds(20)
    rollout = yard.begun(canary, SLOW)
    yard.pass_seconds(3)
    assert counted(yard, rollout) == sampled(rollout)


def test_requests_that_name_their_version_are_no_evidence(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    before = counted(yard, rollout)
    yard.add_sample(2, "", requests=500, failures=500)
    yard.clock.advance(1)
    rollouts_tick()
    assert counted(yard, rollout) == before


def test_latency_is_not_compared_while_a_benchmark_loads_one_version(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    yard.pass_seconds(10)
    before = yard.now(rollout).learned
    yard.pass_seconds(1, ticking=False)
    yard.add_sample(1, "", requests=5000)
    rollouts_tick()
    loaded = yard.now(rollout).learned
    assert loaded.timed.stable.requests == before.timed.stable.requests > 0
    assert loaded.total.stable.requests > before.total.stable.requests
    yard.pass_seconds(1)
    assert yard.now(rollout).learned.timed.stable.requests > loaded.timed.stable.requests


def test_a_turn_of_a_rollout_that_ended_does_nothing(yard: Yard, canary) -> None:
    ended = yard.until_state(yard.start(canary), RolloutState.SUCCEEDED)
    assert rollout_tick(rollout_id=ended.id) is False
    assert rollout_tick(rollout_id="ro_unknown") is False
