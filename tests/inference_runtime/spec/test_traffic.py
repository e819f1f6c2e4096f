"""Traffic tables: what a right one is, and where units fall."""

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.traffic import BUCKETS, bucket_of, read_table, table_body


def arm(version, weight, role="stable", **more):
    return {"version": version, "weight": weight, "role": role, **more}


def table(*arms, **more):
    return {"generation": 1, "salt": "s", "arms": list(arms), **more}


def test_a_table_survives_its_json_form():
    body = table(arm(3, 0.95), arm(4, 0.05, "canary"), unit_header="X-User", generation=7)
    read = read_table("m", body)
    assert read_table("m", table_body(read)) == read
    assert table_body(read)["arms"][1] == {
        "model": "m",
        "version": 4,
        "role": "canary",
        "weight": 0.05,
    }
    assert read.unit_header == "x-user"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "must be a JSON object"),
        ({}, "'arms' must be a list"),
        (table(), "'arms' must be a list"),
        (table(arm(1, 0.5)), "must sum to 1, got 0.5"),
        (table(arm(1, 0.99995), arm(2, 0.00005)), "finer than 0.0001"),
        (table(arm(1, 1.0), arm(1, 0.0)), "only one arm"),
        (table(arm(1, 1.5), arm(2, -0.5)), "a number from 0 to 1"),
        (table(arm(1, True)), "a number from 0 to 1"),
        (table(arm(1, float("nan"))), "a number from 0 to 1"),
        (table(arm(0, 1.0)), "'version' must be an integer of at least 1"),
        (table(arm("1", 1.0)), "'version' must be an integer"),
        (table(arm(1, 1.0, "shadow")), "must be 'stable' or 'canary'"),
        (table(arm(1, 1.0), generation=0), "'generation' must be an integer"),
        (table(arm(1, 1.0), generation=None), "'generation' must be an integer"),
        (table(arm(1, 1.0), salt=3), "'salt' must be a string"),
        (table(arm(1, 1.0), model="other"), "the table is for model 'other'"),
        (table("no arm"), "arm 0 must be a JSON object"),
    ],
)
def test_what_is_no_table_is_refused(body, problem):
    with pytest.raises(InvalidArgument, match=problem):
        read_table("m", body)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 300])
def test_a_table_is_for_a_name_that_a_model_can_have(name):
    with pytest.raises(InvalidArgument, match="can not be the name of a model"):
        read_table(name, table(arm(1, 1.0)))


def test_the_canary_has_the_lowest_buckets_and_nothing_gets_weight_zero():
    read = read_table("m", table(arm(1, 0.9), arm(2, 0.1, "canary"), arm(3, 0)))
    assert [(upper, found.version) for upper, found in read.ranges()] == [(1000, 2), (BUCKETS, 1)]


def test_raising_the_canary_only_adds_units_to_it():
    def canary(weight):
        read = read_table("m", table(arm(1, 1 - weight), arm(2, weight, "canary")))
        upper = read.ranges()[0][0] if weight else 0
        return {unit for unit in range(2000) if bucket_of("salt", str(unit)) < upper}

    before: set[int] = set()
    for weight in (0.01, 0.1, 0.25, 0.5):
        now = canary(weight)
        assert before < now
        before = now


def test_units_spread_evenly_and_salts_differ():
    buckets = [bucket_of("a", f"user-{number}") for number in range(20_000)]
    below = sum(bucket < 1000 for bucket in buckets)
    assert 1800 < below < 2200
    same = sum(bucket_of("b", f"user-{n}") == buckets[n] for n in range(2000))
    assert same < 10


def test_the_hash_is_the_same_everywhere_and_for_ever():
    assert bucket_of("salt", "unit") == bucket_of("salt", "unit")
    assert [bucket_of("s" * 200, "u"), bucket_of("", "")] == [3891, 1086]
