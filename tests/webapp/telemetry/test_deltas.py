from typing import Any

from hypothesis import given, strategies as st

from tests.fakes.counting_runtime import CountingRuntime
from webapp.telemetry.deltas import Baseline, RuntimeDelta
from webapp.telemetry.readings import COUNTERS, RuntimeReading, reading_of

SECOND = 10**9


def advance(baseline: Baseline, body: dict[str, Any], at: int) -> RuntimeDelta:
    body["process"]["at_ns"] = at * SECOND
    return baseline.advance(reading_of(body), read_at_ns=at * SECOND)


def test_first_reading_gives_no_counts() -> None:
    runtime = CountingRuntime()
    runtime.serve("resnet50", 1, requests=50)
    delta = advance(Baseline(), runtime.body(), 1)
    assert delta.span_ms == 0
    assert delta.servings == ()
    assert delta.cpu_percent is None


def test_counts_are_what_happened_in_between() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.serve("resnet50", 1, requests=50, latency_ms=4)
    advance(baseline, runtime.body(), 1)
    runtime.serve("resnet50", 1, requests=7, latency_ms=4, failures=2)
    runtime.serve("resnet50", 1, arm="canary", requests=3, latency_ms=9)
    runtime.cpu_seconds += 0.5
    delta = advance(baseline, runtime.body(), 2)
    by_arm = {serving.key.arm: serving for serving in delta.servings}
    assert delta.span_ms == 1000
    assert delta.cpu_percent == 50
    assert by_arm["stable"].counts["requests"] == 7
    assert by_arm["stable"].counts["failures"] == 2
    assert sum(by_arm["stable"].latency.values()) == 5
    assert by_arm["canary"].counts["requests"] == 3


def test_restart_counts_what_the_new_process_served_and_nothing_negative() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.serve("resnet50", 1, requests=50)
    advance(baseline, runtime.body(), 1)
    runtime.restart("second")
    runtime.serve("resnet50", 1, requests=4)
    delta = advance(baseline, runtime.body(), 3)
    assert delta.restarted
    assert delta.span_ms == 2000
    assert delta.cpu_percent is None
    assert [serving.counts["requests"] for serving in delta.servings] == [4]
    assert (delta.loaded, delta.unloaded) == ((), ())


def test_counter_that_falls_within_an_epoch_is_no_traffic() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.serve("resnet50", 1, requests=50)
    advance(baseline, runtime.body(), 1)
    runtime.arms["resnet50", 1].clear()
    runtime.serve("resnet50", 1, requests=2)
    delta = advance(baseline, runtime.body(), 2)
    assert [serving.counts["requests"] for serving in delta.servings] == [0]


def test_version_that_comes_back_continues_its_counters() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.serve("resnet50", 1, requests=50)
    advance(baseline, runtime.body(), 1)
    arms = runtime.arms.pop(("resnet50", 1))
    assert advance(baseline, runtime.body(), 2).unloaded == (("resnet50", 1),)
    runtime.arms["resnet50", 1] = arms
    runtime.serve("resnet50", 1, requests=5)
    delta = advance(baseline, runtime.body(), 3)
    assert delta.loaded == (("resnet50", 1),)
    assert [serving.counts["requests"] for serving in delta.servings] == [5]


def test_gauges_stand_on_one_arm_so_that_they_add_up() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.serve("resnet50", 1, arm="canary")
    runtime.serve("resnet50", 1, arm="stable")
    runtime.serve("resnet50", 1, arm="")
    runtime.pending["resnet50", 1] = 6
    advance(baseline, runtime.body(), 1)
    delta = advance(baseline, runtime.body(), 2)
    assert [(s.key.arm, s.pending) for s in delta.servings] == [
        ("stable", 6),
        ("canary", None),
        ("", None),
    ]


def test_loaded_version_without_a_request_is_an_idle_row() -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    runtime.load("resnet50", 1)
    advance(baseline, runtime.body(), 1)
    delta = advance(baseline, runtime.body(), 2)
    assert [(s.key.arm, s.idle) for s in delta.servings] == [("default", True)]


steps = st.lists(
    st.tuples(
        st.sampled_from(["stable", "canary", ""]),
        st.integers(0, 40),
        st.integers(1, 2000),
        st.booleans(),
    ),
    max_size=12,
)


@given(steps)
def test_deltas_never_lose_or_invent_a_request(
    history: list[tuple[str, int, int, bool]],
) -> None:
    runtime, baseline = CountingRuntime(), Baseline()
    advance(baseline, runtime.body(), 0)
    served = seen = measured = 0
    for turn, (arm, requests, latency_ms, restarts) in enumerate(history, start=1):
        if restarts:
            runtime.restart(f"epoch {turn}")
        runtime.serve("m", 1, arm=arm, requests=requests, latency_ms=latency_ms)
        served += requests
        delta = advance(baseline, runtime.body(), turn)
        seen += sum(serving.counts["requests"] for serving in delta.servings)
        measured += sum(sum(serving.latency.values()) for serving in delta.servings)
        assert all(value >= 0 for s in delta.servings for value in s.counts.values())
    assert seen == measured == served


def test_reading_without_epoch_takes_a_fallen_counter_for_a_reset() -> None:
    def reading(requests: int, at: int) -> RuntimeReading:
        runtime = CountingRuntime(epoch="")
        runtime.serve("m", 1, requests=requests)
        body = runtime.body()
        body["process"]["at_ns"] = at
        return reading_of(body)

    baseline = Baseline()
    baseline.advance(reading(90, 0), read_at_ns=0)
    delta = baseline.advance(reading(8, SECOND), read_at_ns=SECOND)
    assert delta.servings[0].counts["requests"] == 8
    assert set(delta.servings[0].counts) == set(COUNTERS)
