"""The data flow of ensembles, without models: what may run when, and what belongs together."""

from hypothesis import given, strategies as st

from inference_runtime.scheduling.ensemble_flow import (
    EnsembleFlow,
    EnsembleGraph,
    EnsembleView,
    Value,
)
from inference_runtime.spec.ensemble import EnsembleScheduling, EnsembleStep

ANY = Value("FP32", (1,), b"abcd")


def graph(*steps: tuple[tuple[str, ...], tuple[str, ...]], decoupled=()) -> EnsembleGraph:
    scheduling = EnsembleScheduling(
        tuple(
            EnsembleStep(f"m{n}", -1, {t: t for t in inputs}, {t: t for t in outputs})
            for n, (inputs, outputs) in enumerate(steps)
        ),
        0,
    )
    flags = [index in decoupled for index in range(len(steps))]
    return EnsembleGraph(scheduling, flags)


def flow(the_graph: EnsembleGraph, *outputs: str) -> EnsembleFlow:
    return EnsembleFlow(EnsembleView(the_graph, outputs))


def test_a_step_waits_for_all_its_inputs():
    diamond = graph((("a",), ("b",)), (("a",), ("c",)), (("b", "c"), ("d",)))
    state = flow(diamond, "d")
    assert state.put({"a": ANY}, ()) == ([(0, ()), (1, ())], [])
    assert state.put({"b": ANY}, ()) == ([], [])
    assert state.put({"c": ANY}, ()) == ([(2, ())], [])
    assert state.put({"d": ANY}, ()) == ([], [()])


def test_what_nobody_asked_for_does_not_run():
    fork = graph((("a",), ("b",)), (("a",), ("c",)))
    state = flow(fork, "c")
    assert state.put({"a": ANY}, ()) == ([(1, ())], [])
    assert state.view.asked == {1: ("c",)}


def test_a_tensor_that_was_left_out_counts_as_there():
    state = flow(graph((("a", "b"), ("c",))), "c")
    assert state.put({"a": ANY, "b": None}, ()) == ([(0, ())], [])
    assert state.value("b", ()) is None


def test_an_input_may_be_an_output():
    state = flow(graph((("a",), ("b",))), "a", "b")
    assert state.put({"a": ANY}, ()) == ([(0, ())], [])
    assert state.put({"b": ANY}, ()) == ([], [()])


def test_each_response_leads_on_by_itself_and_shallow_values_serve_all():
    stream = graph((("a",), ("r",)), (("r", "s"), ("o",)), decoupled={0})
    state = flow(stream, "o")
    state.put({"a": ANY}, ())
    assert state.put({"r": ANY}, (0,)) == ([], [])
    assert state.put({"r": ANY}, (1,)) == ([], [])
    assert state.put({"s": ANY}, ()) == ([(1, (0,)), (1, (1,))], [])
    assert state.put({"r": ANY}, (2,)) == ([(1, (2,))], [])
    assert state.put({"o": ANY}, (1,)) == ([], [(1,)])


def test_a_decoupled_step_behind_another_numbers_within():
    stream = graph((("a",), ("r",)), (("r",), ("o",)), decoupled={0, 1})
    state = flow(stream, "o")
    state.put({"a": ANY}, ())
    assert state.put({"r": ANY}, (1,)) == ([(1, (1,))], [])
    assert state.put({"o": ANY}, (1, 0)) == ([], [(1, 0)])


def test_values_of_responses_that_all_had_are_let_go():
    stream = graph((("a",), ("r",)), (("r",), ("o",)), decoupled={0})
    state = flow(stream, "o", "r")
    state.put({"a": ANY}, ())
    for number in range(100):
        [(step, key)], _ = state.put({"r": ANY}, (number,))
        assert (step, key) == (1, (number,))
        state.used(["r"], key)
        _, [complete] = state.put({"o": ANY}, key)
        state.used(["o", "r"], complete)
    assert state._values["r"] == {}
    assert state._values["o"] == {}


@given(st.permutations(range(6)), st.integers(1, 3))
def test_every_combination_runs_once_whatever_comes_first(order, shallow_after):
    """Responses of a decoupled step in any order; the shallow input somewhere between them."""
    stream = graph((("a",), ("r",)), (("r", "s"), ("o",)), decoupled={0})
    state = flow(stream, "o")
    state.put({"a": ANY}, ())
    ran = []
    for position, number in enumerate(order):
        if position == shallow_after:
            ran += state.put({"s": ANY}, ())[0]
        ran += state.put({"r": ANY}, (number,))[0]
    assert sorted(ran) == [(1, (number,)) for number in range(6)]
