"""Traffic tables: numbered, carried out at once, never backwards."""

import threading
import time
from functools import partial

import pytest
from django.db import transaction

from tests.webapp.at_once import at_once
from tests.webapp.serving.steps import deploy, split, two_versions
from webapp.audit.models import AuditEvent
from webapp.core.errors import Conflict, InvalidInput
from webapp.runtime_client.types import TrafficArm, TrafficTable as WireTable
from webapp.serving.models import TrafficApplied, TrafficTable
from webapp.serving.selectors import traffic_state, traffic_table
from webapp.serving.services import (
    traffic_catch_up,
    traffic_push,
    traffic_set,
    traffic_unreached,
)


def arms(*rows):
    return [{"version": version, "role": role, "weight": weight} for version, role, weight in rows]


def test_a_table_is_at_the_runtime_when_the_call_returns(yard):
    two_versions(yard)
    table = split(yard, 0.05)
    assert table.generation == 2
    assert yard.table() == {1: 0.95, 2: 0.05}
    applied = TrafficApplied.objects.get()
    assert applied.generation == 2
    assert applied.error == ""


def test_nothing_is_pushed_before_the_commit(yard):
    two_versions(yard)
    with transaction.atomic():
        split(yard, 0.05)
        assert yard.table() == {1: 1.0}
    assert yard.table() == {1: 0.95, 2: 0.05}


def test_a_table_rolled_back_is_never_seen(yard):
    two_versions(yard)
    with transaction.atomic():
        split(yard, 0.05)
        transaction.set_rollback(True)
    assert yard.table() == {1: 1.0}
    assert traffic_table(model=yard.model).generation == 1


def test_the_salt_stays_unless_a_new_one_is_given(yard):
    two_versions(yard)
    first = traffic_table(model=yard.model).salt
    assert split(yard, 0.05).salt == first
    assert split(yard, 0.1, salt="new").salt == "new"
    assert split(yard, 0.2).salt == "new"


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "Exactly one arm"),
        ([(1, "stable", 0.5)], "add up to 1"),
        ([(1, "stable", 0.5), (2, "stable", 0.5)], "Exactly one arm"),
        ([(1, "stable", 0.5), (1, "canary", 0.5)], "only one arm"),
        ([(1, "stable", 1.5)], "from 0 to 1"),
        ([(1, "stable", 0.99995), (2, "canary", 0.00005)], "finer than"),
        ([(1, "boss", 1.0)], "'stable' or 'canary'"),
        ([(0, "stable", 1.0)], "version number"),
    ],
    ids=["none", "half", "two-stable", "twice", "too-much", "too-fine", "role", "version"],
)
def test_tables_that_cannot_be_are_refused(yard, rows, sentence):
    two_versions(yard)
    with pytest.raises(InvalidInput, match=sentence):
        traffic_set(model=yard.model, arms=arms(*rows), actor=None, reason="test")
    assert yard.table() == {1: 1.0}


def test_a_version_that_is_not_loaded_gets_no_share(yard):
    deploy(yard, yard.publish(1))
    yard.publish(2)
    with pytest.raises(Conflict, match="not loaded on any runtime"):
        split(yard, 0.1)


def test_a_table_decided_on_an_old_one_is_refused(yard):
    two_versions(yard)
    split(yard, 0.05, expected_generation=1)
    with pytest.raises(Conflict, match="generation 2, not 1"):
        split(yard, 0.5, expected_generation=1)
    assert yard.table() == {1: 0.95, 2: 0.05}


def test_every_change_is_audited_with_the_whole_table(yard):
    two_versions(yard)
    split(yard, 0.05)
    event = AuditEvent.objects.filter(action="traffic.set").first()
    assert event.before["generation"] == 1
    assert event.before["arms"][0]["weight"] == 1.0
    assert event.after["arms"][1] == {
        "version": 2, "variant": None, "role": "canary", "weight": 0.05,
    }  # fmt: skip
    assert event.note == "test"


def test_shares_tell_configured_from_applied(yard):
    two_versions(yard)
    yard.fake.down = True
    split(yard, 0.05)
    state = traffic_state(model=yard.model)
    assert not state["converged"]
    assert state["runtimes"][0]["reason"] == "fake: Connection refused"
    shares = {arm["version"]: (arm["configured"], arm["applied"]) for arm in state["arms"]}
    assert shares == {1: (0.95, 1.0), 2: (0.05, 0.0)}
    yard.fake.down = False
    yard.probe()
    state = traffic_state(model=yard.model)
    assert state["converged"]
    shares = {arm["version"]: (arm["configured"], arm["applied"]) for arm in state["arms"]}
    assert shares == {1: (0.95, 0.95), 2: (0.05, 0.05)}


def test_a_wake_up_brings_the_table_to_a_runtime_that_was_away_for_a_moment(yard):
    two_versions(yard)
    yard.fake.down = True
    split(yard, 0.05)
    yard.fake.down = False
    assert traffic_unreached(model=yard.model) == [yard.runtime]
    traffic_catch_up(model_id=yard.model.pk)
    assert yard.table() == {1: 0.95, 2: 0.05}
    assert traffic_unreached(model=yard.model) == []
    traffic_catch_up(model_id=yard.model.pk + 99)


def test_pushing_twice_changes_nothing(yard):
    two_versions(yard)
    split(yard, 0.05)
    assert [one.error for one in traffic_push(model=yard.model)] == [""]
    assert traffic_table(model=yard.model).generation == 2


def test_an_old_push_that_comes_late_does_not_win(yard):
    two_versions(yard)
    split(yard, 0.05)
    split(yard, 0.5)
    TrafficApplied.objects.update(generation=0)
    traffic_push(model=yard.model)
    assert yard.table() == {1: 0.5, 2: 0.5}
    assert TrafficApplied.objects.get().generation == 3


def test_a_runtime_that_is_ahead_of_our_database_gets_a_later_number(yard):
    """The database was restored from a backup; what it says is what people now see and mean."""
    two_versions(yard)
    yard.fake.traffic_put(WireTable("echo", 40, "salt", (TrafficArm(2, "stable", 1.0),)))
    yard.probe()
    assert traffic_table(model=yard.model).generation == 41
    assert yard.table() == {1: 1.0}
    assert AuditEvent.objects.filter(action="traffic.set", note__contains="anew").exists()


def test_the_same_number_with_other_content_is_not_taken_for_ours(yard):
    two_versions(yard)
    yard.fake.traffic_delete("echo", generation=9)
    yard.fake.traffic_put(WireTable("echo", 1, "salt", (TrafficArm(2, "stable", 1.0),)))
    yard.probe()
    assert yard.table() == {1: 1.0}


def test_all_runtimes_are_reached_at_once(yard):
    first, second = two_versions(yard)
    slow = []
    for name in ("edge-1", "edge-2", "edge-3"):
        runtime, fake = yard.attach(name)
        deploy(yard, first, runtime=runtime)
        deploy(yard, second, runtime=runtime)
        slow.append(fake)
    gate = threading.Barrier(3, timeout=5)

    def slowly(fake):
        put = fake.traffic_put

        def traffic_put(table, *, timeout=None):
            gate.wait()  # passes only when all three are asked at the same time
            return put(table)

        fake.traffic_put = traffic_put

    for fake in slow:
        slowly(fake)
    split(yard, 0.3)
    assert [yard.table(fake) for fake in slow] == [{1: 0.7, 2: 0.3}] * 3


def test_two_writers_at_once_both_count_and_the_last_one_is_everywhere(yard):
    two_versions(yard)
    weights = [0.01 * number for number in range(1, 9)]

    at_once([partial(split, yard, round(weight, 4)) for weight in weights])
    table = TrafficTable.objects.get()
    assert table.generation == 1 + len(weights)
    deadline = time.monotonic() + 5
    wanted = {arm["version"]: arm["weight"] for arm in table.arms}
    while yard.table() != wanted and time.monotonic() < deadline:
        yard.probe()
    assert yard.table() == wanted
    assert TrafficApplied.objects.get().generation == table.generation
