"""What watchers are told, and what every page must not hide."""

from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from tests.webapp.rollouts.yard import Behaviour, Yard
from webapp.core.events import group_of
from webapp.core.snapshots import snapshot_of
from webapp.core.verdict import strip_of
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.services import rollout_abort

SLOW = [{"weight": 0.25, "hold_seconds": 500, "min_requests": 10_000}]


class Watcher:
    def __init__(self, topic: str) -> None:
        self.layer = get_channel_layer()
        assert self.layer is not None
        self.channel = async_to_sync(self.layer.new_channel)()
        async_to_sync(self.layer.group_add)(group_of(topic), self.channel)

    def next(self) -> dict[str, Any]:
        event: dict[str, Any] = async_to_sync(self.layer.receive)(self.channel)
        data: dict[str, Any] = event["data"]
        return data


def test_a_watcher_first_sees_the_whole_rollout(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    body = snapshot_of(f"rollout:{rollout.id}", yard.world.vic)
    assert (body["id"], body["state"], body["weight"]) == (rollout.id, "PROGRESSING", 0.25)
    items = snapshot_of("rollouts", yard.world.vic)["items"]
    assert [item["id"] for item in items] == [rollout.id]


def test_every_turn_tells_how_it_stands(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    watcher = Watcher(f"rollout:{rollout.id}")
    yard.pass_seconds(1)
    first = watcher.next()
    yard.pass_seconds(1)
    assert watcher.next()["sample"]["seen"] > first["sample"]["seen"]


def test_a_move_is_told_with_the_share_the_runtime_has_confirmed(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    one, all_of_them = Watcher(f"rollout:{rollout.id}"), Watcher("rollouts")
    rollout_abort(rollout=rollout, actor=yard.olga)
    back, ended = one.next(), one.next()
    assert (back["state"], ended["state"]) == ("ROLLING_BACK", "ABORTED")
    assert back["shares"]["applied"] == 0.0
    assert [item["state"] for item in all_of_them.next()["items"]] == ["ROLLING_BACK"]
    assert all_of_them.next()["items"] == []


def test_a_failed_rollback_is_on_every_page_until_the_next_rollout(yard: Yard, canary) -> None:
    rollout = yard.begun(canary, SLOW)
    yard.behaviours[2] = Behaviour(error_rate=0.5)
    yard.measure()
    yard.fake.down = True
    yard.pass_blind(140)
    assert yard.now(rollout).state == RolloutState.FAILED
    strip = strip_of(yard.world.vic)
    assert "resnet50: rollback failed" in [item.text for item in strip.items]
    yard.fake.down = False
    yard.start(canary, SLOW)
    assert "resnet50: rollback failed" not in [i.text for i in strip_of(yard.world.vic).items]
