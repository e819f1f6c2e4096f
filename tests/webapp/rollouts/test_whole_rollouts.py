"""Rollouts from start to end over a fake runtime: they judge, move and end by themselves."""

import pytest

from tests.webapp.rollouts.yard import QUICK, Behaviour, Yard
from webapp.audit.models import AuditEvent
from webapp.catalog.choices import Stage
from webapp.catalog.models import ModelVersion
from webapp.catalog.selectors import stage_version
from webapp.core.errors import ControlPlaneError
from webapp.rollouts.choices import AnalysisState, RolloutState, Verdict
from webapp.telemetry.models import EventMark


def test_an_equal_canary_is_promoted_by_itself(yard: Yard, stable, canary) -> None:
    rollout = yard.start(canary)
    assert rollout.state == RolloutState.INITIALIZING
    ended = yard.until_state(rollout, *RolloutState.values[7:])
    assert (ended.state, ended.verdict) == (RolloutState.SUCCEEDED, Verdict.PASS)
    assert yard.table() == yard.applied() == {2: 1.0}
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == canary
    states = list(ended.transitions.order_by("id").values_list("to_state", "weight"))
    assert states == [
        ("INITIALIZING", 0.0),
        ("PROGRESSING", 0.1),
        ("PROGRESSING", 0.5),
        ("PROMOTING", 1.0),
        ("BAKING", 1.0),
        ("SUCCEEDED", 1.0),
    ]
    assert yard.fake.model_ready("resnet50", 1), "the old version stays loaded"


def test_a_canary_that_fails_one_request_in_twenty_is_rolled_back_by_itself(
    yard: Yard, stable, canary
) -> None:
    yard.behaviours[2] = Behaviour(error_rate=0.05)
    rollout = yard.start(canary)
    ended = yard.until_state(rollout, RolloutState.ROLLED_BACK, RolloutState.SUCCEEDED)
    assert (ended.state, ended.verdict) == (RolloutState.ROLLED_BACK, Verdict.FAIL)
    assert "of canary requests" in ended.reason
    assert yard.table() == yard.applied() == {1: 1.0}
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == stable
    failed = ended.analyses.filter(state=AnalysisState.FAILED).get()
    assert failed.canary["errors"] > 0
    assert failed.reason == ended.reason


def test_a_canary_that_refuses_what_stable_takes_is_rolled_back(yard: Yard, canary) -> None:
    yard.behaviours[2] = Behaviour(client_fault_rate=0.2)
    ended = yard.until_state(yard.start(canary), RolloutState.ROLLED_BACK)
    assert ended.reason.startswith("Client faults")


def test_a_much_slower_canary_is_rolled_back(yard: Yard, canary) -> None:
    yard.behaviours[2] = Behaviour(median_ms=20)
    ended = yard.until_state(
        yard.start(canary, [{"weight": 0.3, "hold_seconds": 60, "min_requests": 1000}]),
        RolloutState.ROLLED_BACK,
    )
    assert ended.reason.startswith("Slow answers")


def test_a_failure_that_shows_only_with_all_traffic_is_rolled_back_while_baking(
    yard: Yard, stable, canary
) -> None:
    rollout = yard.start(canary, [{"weight": 0.5, "hold_seconds": 3, "min_requests": 10},
                                  {"weight": 1.0, "hold_seconds": 60}])  # fmt: skip
    yard.until_state(rollout, RolloutState.BAKING)
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == canary
    yard.behaviours[2] = Behaviour(error_rate=0.06)
    ended = yard.until_state(rollout, RolloutState.ROLLED_BACK)
    assert ended.reason.startswith("Hard stop")
    assert yard.applied() == {1: 1.0}
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == stable


def test_a_canary_that_is_not_loaded_is_loaded_first(yard: Yard) -> None:
    canary = yard.version(2)
    rollout = yard.start(canary)
    assert rollout.reason == "Loading version 2 on edge-1."
    yard.pass_seconds(3)
    waiting = yard.now(rollout)
    assert waiting.state == RolloutState.INITIALIZING
    assert "edge-1" in waiting.reason
    assert yard.table() == {1: 1.0}
    yard.work()
    assert yard.table() == {1: 1.0}, "loaded beside, without traffic"
    assert yard.until_state(rollout, RolloutState.SUCCEEDED).state == RolloutState.SUCCEEDED


def test_a_canary_that_cannot_be_loaded_ends_the_rollout_without_moving_traffic(
    yard: Yard, stable
) -> None:
    canary = yard.version(2)
    (yard.repository / "resnet50" / "2" / "model.onnx").write_bytes(b"broken")
    rollout = yard.start(canary)
    with pytest.raises(ControlPlaneError, match="cannot be read"):
        yard.work()
    yard.pass_seconds(2)
    ended = yard.now(rollout)
    assert ended.state == RolloutState.ROLLED_BACK
    assert "could not be loaded" in ended.reason
    assert yard.table() == {1: 1.0}


def test_a_plan_of_one_step_goes_straight_to_all_traffic(yard: Yard, canary) -> None:
    rollout = yard.start(canary, [{"weight": 1.0, "hold_seconds": 2}])
    ended = yard.until_state(rollout, RolloutState.SUCCEEDED)
    assert [t.to_state for t in ended.transitions.order_by("id")] == [
        "INITIALIZING", "PROMOTING", "BAKING", "SUCCEEDED",
    ]  # fmt: skip


def test_every_move_is_in_the_audit_log_and_marked_in_charts(yard: Yard, canary) -> None:
    rollout = yard.until_state(yard.start(canary), RolloutState.SUCCEEDED)
    rows = AuditEvent.objects.filter(target=rollout.api_path).order_by("id")
    assert [row.action for row in rows] == [
        "rollout.start", "rollout.step", "rollout.step", "rollout.promote", "rollout.bake",
        "rollout.succeed",
    ]  # fmt: skip
    assert rows[0].actor == yard.olga
    assert rows[1].actor is None
    assert [(row.before or {}).get("weight") for row in rows] == [0.0, 0.0, 0.1, 0.5, 1.0, 1.0]
    assert [(row.after or {}).get("weight") for row in rows] == [0.0, 0.1, 0.5, 1.0, 1.0, 1.0]
    assert {mark.kind for mark in EventMark.objects.filter(model_name="resnet50")} >= {
        "start", "step", "promote", "bake", "succeed",
    }  # fmt: skip


def test_the_next_rollout_begins_from_the_promoted_version_with_a_new_draw(
    yard: Yard, canary
) -> None:
    first = yard.until_state(yard.start(canary), RolloutState.SUCCEEDED)
    third = yard.version(3)
    yard.deploy(third)
    second = yard.begun(third, QUICK)
    assert (second.stable.number, second.canary.number) == (2, 3)
    assert second.salt != first.salt
    assert yard.table() == {2: 0.9, 3: 0.1}


def test_two_production_versions_never_exist(yard: Yard, canary: ModelVersion) -> None:
    yard.until_state(yard.start(canary), RolloutState.SUCCEEDED)
    assert yard.model.stages.filter(stage=Stage.PRODUCTION).count() == 1
