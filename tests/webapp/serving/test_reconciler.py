"""Desired + observed → actions, and the promises that hold for every picture."""

from dataclasses import replace

from hypothesis import given, strategies as st

from webapp.serving.reconciler import (
    DropTable,
    Load,
    ModelPicture,
    PushTable,
    Share,
    Unload,
    WantedTable,
    next_actions,
)


def picture(*wanted, ready=(), **more):
    observed = more.pop("observed", dict.fromkeys(ready, "READY"))
    return ModelPicture(wanted=frozenset(wanted), observed=observed, **more)


def stable(version, generation=1):
    return WantedTable(generation, (Share(version, "stable", 1.0),))


def split(generation=5, weight=0.1):
    return WantedTable(generation, (Share(1, "stable", 1 - weight), Share(2, "canary", weight)))


def test_nothing_to_do_when_all_is_as_wanted():
    seen = picture(1, ready=[1], table=stable(1), tabled=True, table_current=True)
    assert next_actions(seen) == []


def test_a_first_version_is_loaded():
    assert next_actions(picture(1)) == [Load((1,))]


def test_a_second_version_is_loaded_beside_the_first():
    seen = picture(1, 2, ready=[1], table=stable(1), tabled=True, table_current=True)
    assert next_actions(seen) == [Load((1, 2))]


def test_before_a_new_version_comes_the_table_that_keeps_requests_away_from_it():
    seen = picture(1, 2, ready=[1], table=stable(1))
    assert next_actions(seen) == [PushTable(), Load((1, 2))]


def test_a_runtime_that_lost_everything_gets_stable_and_an_interim_table_first():
    assert next_actions(picture(1, 2, table=split())) == [
        Load((1,)),
        PushTable(stable_only=True),
        Load((1, 2)),
        PushTable(),
    ]


def test_with_all_traffic_on_stable_the_real_table_fits_before_the_rest_is_loaded():
    assert next_actions(picture(1, 2, table=stable(1))) == [
        Load((1,)),
        PushTable(),
        Load((1, 2)),
    ]


def test_a_table_that_came_late_is_pushed():
    seen = picture(1, 2, ready=[1, 2], table=split(), tabled=True)
    assert next_actions(seen) == [PushTable()]


def test_a_table_waits_for_the_versions_it_names():
    seen = picture(1, 2, ready=[1], table=split(), tabled=True, held_back=frozenset({2}))
    assert next_actions(seen) == []


def test_a_version_that_failed_does_not_keep_the_others_out():
    seen = picture(1, 2, 3, held_back=frozenset({3}))
    assert next_actions(seen) == [Load((1, 2))]


def test_a_serving_version_is_not_dropped_because_a_load_of_it_failed_once():
    seen = picture(1, 2, ready=[1], held_back=frozenset({1}))
    assert next_actions(seen) == [Load((1, 2))]


def test_a_version_nobody_wants_is_unloaded_by_loading_the_others():
    seen = picture(1, ready=[1, 2], table=stable(1), tabled=True, table_current=True)
    assert next_actions(seen) == [Load((1,))]


def test_a_model_nobody_wants_is_unloaded_and_its_table_dropped():
    assert next_actions(picture(ready=[1, 2], tabled=True)) == [Unload(), DropTable()]
    assert next_actions(picture(observed={1: "UNAVAILABLE"}, tabled=True)) == [DropTable()]
    assert next_actions(picture(observed={1: "UNAVAILABLE"})) == []


def test_a_changed_config_is_loaded_unless_it_was_refused_lately():
    seen = picture(1, ready=[1], config_current=False)
    assert next_actions(seen) == [Load((1,))]
    assert next_actions(replace(seen, reload_held=True)) == []


def test_what_a_runtime_refused_to_unload_is_not_asked_for_again_at_once():
    assert next_actions(picture(ready=[1], unload_held=True)) == []


def test_a_table_without_arms_takes_the_runtimes_table_away():
    seen = picture(1, ready=[1], table=WantedTable(4, ()), tabled=True)
    assert next_actions(seen) == [DropTable()]


def test_a_triton_is_never_given_tables():
    seen = picture(1, 2, table=split(), splits=False)
    assert next_actions(seen) == [Load((1, 2))]


versions = st.frozensets(st.integers(1, 5))


@st.composite
def pictures(draw):
    wanted = draw(versions)
    states = st.sampled_from(["READY", "LOADING", "UNLOADING", "UNAVAILABLE"])
    table = None
    if draw(st.booleans()):
        arms = [Share(draw(st.integers(1, 5)), "stable", 1.0)]
        if draw(st.booleans()):
            weight = draw(st.sampled_from([0.0, 0.1, 1.0]))
            arms = [replace(arms[0], weight=1 - weight)]
            arms.append(Share(draw(st.integers(6, 9)), "canary", weight))
        table = WantedTable(draw(st.integers(1, 9)), tuple(arms))
    tabled = draw(st.booleans())
    return ModelPicture(
        wanted=wanted,
        observed=draw(st.dictionaries(st.integers(1, 5), states)),
        held_back=draw(versions) & wanted,
        config_current=draw(st.booleans()),
        reload_held=draw(st.booleans()),
        unload_held=draw(st.booleans()),
        table=table,
        tabled=tabled,
        table_current=tabled and table is not None and draw(st.booleans()),
        splits=draw(st.booleans()),
    )


@given(pictures())
def test_what_serves_and_is_wanted_is_in_every_load(seen):
    serving = seen.ready & seen.wanted
    for action in next_actions(seen):
        if isinstance(action, Load):
            assert serving <= set(action.versions)
            assert set(action.versions) <= seen.wanted
        if isinstance(action, Unload):
            assert not serving


@given(pictures())
def test_the_real_table_is_pushed_only_when_every_arm_with_weight_is_there(seen):
    there = set(seen.ready)
    for action in next_actions(seen):
        match action:
            case Load(numbers):
                there = set(numbers)
            case Unload():
                there = set()
            case PushTable(stable_only=False):
                assert seen.table is not None
                assert seen.table.weighty <= there
            case PushTable():
                assert seen.table is not None
                assert seen.table.stable <= there


@given(pictures())
def test_settled_work_leaves_nothing_to_do(seen):
    """Carrying the actions out, on a runtime that does as it is told, ends after one round."""
    if seen.reload_held or seen.unload_held:
        return
    for action in next_actions(seen):
        match action:
            case Load(numbers):
                seen = replace(seen, observed=dict.fromkeys(numbers, "READY"), config_current=True)
            case Unload():
                seen = replace(seen, observed={})
            case PushTable(stable_only=False):
                seen = replace(seen, tabled=True, table_current=True)
            case PushTable():
                seen = replace(seen, tabled=True)
            case DropTable():
                seen = replace(seen, tabled=False, table_current=False)
    assert next_actions(seen) == []
