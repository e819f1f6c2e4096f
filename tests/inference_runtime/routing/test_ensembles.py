"""Ensembles through the core: data flow, faults, cancellation, decoupled steps, and who depends on whom."""

import asyncio

import numpy as np
import pytest

from inference_runtime.errors import Cancelled, FaultCode, InvalidArgument, NotFound, RuntimeFault
from inference_runtime.scheduling import ensemble_backpressure
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse
from tests.inference_runtime.core_world import (
    WAIT_SECONDS,
    core_world,
    data_of,
    eventually,
    head_of,
)
from tests.inference_runtime.routing.ensembles import (
    CHAIN,
    FLOATS,
    step,
    write_adders,
    write_ensemble,
)
from tests.repeat_models import REPEAT

X = np.array([[1, 2, 3, 4]], np.float32)
SLOW = """
backend: "identity" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] }
instance_group { count: 4 kind: KIND_CPU }
parameters { key: "execute_delay_ms" value { string_value: "60" } }
"""


def write_config(path, name, text):
    (path / name / "1").mkdir(parents=True)
    (path / name / "config.pbtxt").write_text(text)


@pytest.fixture
async def world(tmp_path):
    write_adders(tmp_path)
    write_config(tmp_path, "slow", SLOW)
    async with core_world(tmp_path) as world:
        yield world


def count(world, model, what="inference_count") -> int:
    [stats] = world.core.model_statistics(model, "1").model_stats
    return int(getattr(stats, what))


@pytest.mark.parametrize("rows", [1, 4])
async def test_the_result_is_that_of_its_steps_one_after_the_other(world, rows):
    write_ensemble(world.path, "chain", CHAIN)
    await world.load("chain")
    x = np.repeat(X, rows, axis=0)
    answer = await world.ask("chain", IN=x)
    np.testing.assert_array_equal(answer["OUT"], x + 11)
    assert count(world, "chain") == count(world, "plus1") == count(world, "plus10") == rows
    assert count(world, "chain", "execution_count") == 1
    [stats] = world.core.model_statistics("chain", "1").model_stats
    assert stats.inference_stats.compute_infer.ns > 0


async def test_a_step_runs_only_when_something_asked_for_needs_it(world):
    steps = step("plus1", {"INPUT0": "IN"}, {"OUTPUT0": "A"}) + step(
        "plus10", {"INPUT0": "IN"}, {"OUTPUT0": "B"}
    )
    write_ensemble(world.path, "fork", steps, outputs={"A": FLOATS, "B": FLOATS})
    await world.load("fork")
    answer = await world.answer(head_of("fork", {"IN": X}, outputs=["A"]), data_of({"IN": X}))
    assert isinstance(answer, InferResponse)
    assert [output.name for output in answer.head.outputs] == ["A"]
    assert (count(world, "plus1"), count(world, "plus10")) == (1, 0)
    both = await world.ask("fork", IN=X)
    np.testing.assert_array_equal(both["B"], X + 10)


async def test_steps_that_do_not_depend_on_each_other_run_side_by_side(world):
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "A"}) + step(
        "slow", {"INPUT0": "IN"}, {"OUTPUT0": "B"}
    )
    write_ensemble(world.path, "both", steps, outputs={"A": FLOATS, "B": FLOATS})
    await world.load("both")
    _, future = world.submit(head_of("both", {"IN": X}), data_of({"IN": X}))
    await eventually(lambda: world.core.inflight().get(("slow", 1)) == 2)
    assert isinstance(await future, InferResponse)


async def test_the_fault_of_a_step_is_the_ensembles_with_its_code(world):
    entry = "data_type: TYPE_INT64 dims: [1]"
    steps = step("broken", {"INDEX": "IN"}, {"OUTPUT0": "OUT"})
    write_ensemble(world.path, "bad", steps, inputs={"IN": entry}, outputs={"OUT": entry})
    await world.load("bad")
    outside = np.full((1, 1), 99, np.int64)
    with pytest.raises(RuntimeFault) as direct:
        await world.ask("broken", INDEX=outside)
    with pytest.raises(RuntimeFault) as through:
        await world.ask("bad", IN=outside)
    assert through.value.text == f"in ensemble 'bad', {direct.value.text}"
    assert through.value.code is direct.value.code
    [stats] = world.core.model_statistics("bad", "1").model_stats
    assert (stats.inference_stats.fail.count, stats.inference_stats.success.count) == (1, 0)


async def test_a_cancelled_request_starts_no_further_step_and_ends_once(world):
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "middle"}) + step(
        "plus1", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"}
    )
    write_ensemble(world.path, "late", steps)
    await world.load("late")
    request, future = world.submit(head_of("late", {"IN": X}), data_of({"IN": X}))
    await eventually(lambda: world.core.inflight().get(("slow", 1)) == 1)
    world.core.cancel(request)
    assert isinstance(await future, Cancelled)
    assert world.core.inflight() == {}
    assert count(world, "plus1", "execution_count") == 0


async def test_steps_in_flight_are_bounded_and_nobody_is_lost(world):
    steps = (
        step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "middle"})
        + step("plus1", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"})
        + "max_inflight_requests: 2"
    )
    write_ensemble(world.path, "narrow", steps)
    await world.load("narrow")
    submitted = [
        world.submit(head_of("narrow", {"IN": X + n}), data_of({"IN": X + n})) for n in range(6)
    ]
    most = 0
    while not all(future.done() for _, future in submitted):
        most = max(most, world.core.inflight().get(("slow", 1), 0))
        if submitted[5][1].done() is False and most == 2:
            world.core.cancel(submitted[5][0])
        await asyncio.sleep(0.002)
    assert most == 2
    answers = [future.result() for _, future in submitted]
    for n, answer in enumerate(answers[:5]):
        np.testing.assert_array_equal(np.frombuffer(answer.data[0], np.float32), (X + n + 1)[0])
    assert isinstance(answers[5], Cancelled)
    assert world.core.inflight() == {}


# Decoupled steps

ECHO = """
backend: "identity" max_batch_size: 0
input { name: "A" data_type: TYPE_INT32 dims: [1] }
input { name: "B" data_type: TYPE_UINT32 dims: [1] }
output { name: "A2" data_type: TYPE_INT32 dims: [1] }
output { name: "B2" data_type: TYPE_UINT32 dims: [1] }
"""
REPEAT_INPUTS = {
    "IN": "data_type: TYPE_INT32 dims: [-1]",
    "DELAY": "data_type: TYPE_UINT32 dims: [-1]",
    "WAIT": "data_type: TYPE_UINT32 dims: [1]",
}
REPEAT_STEP = step(
    "repeat", {name: name for name in REPEAT_INPUTS}, {"OUT": "value", "IDX": "index"}
)


def repeat_data(values, delay_ms=0):
    return {
        "IN": np.array(values, np.int32),
        "DELAY": np.full(len(values), delay_ms, np.uint32),
        "WAIT": np.array([7], np.uint32),
    }


async def streamed(world, model, inputs) -> tuple[list[InferResponse], Answer]:
    partials: list[InferResponse] = []

    def partial(_: InferRequest, answer: Answer) -> None:
        assert isinstance(answer, InferResponse), answer
        partials.append(answer)

    _, future = world.submit(head_of(model, inputs), data_of(inputs), partial=partial)
    async with asyncio.timeout(WAIT_SECONDS):
        return partials, await future


@pytest.fixture
async def decoupled(world):
    write_config(world.path, "repeat", REPEAT)
    write_config(world.path, "echo", ECHO)
    # The second step gets something of each response, and something there is one of per request.
    steps = REPEAT_STEP + step("echo", {"A": "value", "B": "WAIT"}, {"A2": "OUT", "B2": "ONCE"})
    write_ensemble(
        world.path,
        "stream",
        steps,
        inputs=REPEAT_INPUTS,
        outputs={
            "OUT": "data_type: TYPE_INT32 dims: [1]",
            "ONCE": "data_type: TYPE_UINT32 dims: [1]",
            "index": "data_type: TYPE_UINT32 dims: [1]",
        },
        more="",
    )
    await world.load("stream")
    return world


async def test_one_response_per_response_of_a_decoupled_step(decoupled):
    assert decoupled.core.model_config("stream", "").model_transaction_policy.decoupled
    partials, end = await streamed(decoupled, "stream", repeat_data([5, 6, 7]))
    assert isinstance(end, InferResponse)
    assert end.head.empty
    found = [
        tuple(int(np.frombuffer(data, np.uint32)[0]) for data in answer.data) for answer in partials
    ]
    assert sorted(found) == [(5, 7, 0), (6, 7, 1), (7, 7, 2)]
    assert decoupled.core.inflight() == {}


async def test_a_producer_that_can_not_be_held_back_is_stopped_at_a_bound(decoupled, monkeypatch):
    monkeypatch.setattr(ensemble_backpressure, "MOST_WAITING", 20)
    slow = ECHO + 'parameters { key: "execute_delay_ms" value { string_value: "50" } }'
    (decoupled.path / "echo" / "config.pbtxt").write_text(slow)
    await decoupled.load("echo")
    _, end = await streamed(decoupled, "stream", repeat_data(list(range(500))))
    assert isinstance(end, RuntimeFault)
    assert end.code is FaultCode.UNAVAILABLE
    assert end.text.startswith("in ensemble 'stream', more than 20 responses of a decoupled step")
    assert decoupled.core.inflight() == {}
    partials, end = await streamed(decoupled, "stream", repeat_data([1, 2]))
    assert len(partials) == 2


async def test_no_response_of_the_step_is_none_of_the_ensemble(decoupled):
    partials, end = await streamed(decoupled, "stream", repeat_data([]))
    assert (partials, end.head.empty) == ([], True)


async def test_what_two_decoupled_models_give_is_not_combined(decoupled):
    steps = (
        REPEAT_STEP
        + step("repeat", {name: name for name in REPEAT_INPUTS}, {"OUT": "v2", "IDX": "i2"})
        + step("echo", {"A": "value", "B": "i2"}, {"A2": "OUT"})
    )
    write_ensemble(
        decoupled.path,
        "mix",
        steps,
        inputs=REPEAT_INPUTS,
        outputs={
            "OUT": "data_type: TYPE_INT32 dims: [1]",
            "index": "data_type: TYPE_UINT32 dims: [1]",
            "v2": "data_type: TYPE_INT32 dims: [1]",
        },
        more="",
    )
    with pytest.raises(
        InvalidArgument,
        match="in ensemble mix, step of model 'echo' receives inputs originated from different "
        "decoupled models",
    ):
        await decoupled.load("mix")


# Who depends on whom


async def test_models_are_loaded_with_the_ensemble_and_unloaded_with_it_on_request(world):
    write_ensemble(world.path, "chain", CHAIN)
    await world.load("plus10")
    await world.load("chain")
    assert world.states("plus1")["1"][0] == "READY"
    await world.unload("chain")
    assert world.states("plus1")["1"][0] == "READY"
    await world.load("chain")
    await world.core.unload("chain", unload_dependents=True)
    await eventually(lambda: world.states("plus1")["1"] == ("UNAVAILABLE", "unloaded"))
    assert world.states("plus10")["1"][0] == "READY"  # somebody asked for it by name


async def test_an_ensemble_leaves_with_a_model_of_its_and_comes_back_with_it(world):
    write_ensemble(world.path, "chain", CHAIN)
    write_ensemble(world.path, "outer", step("chain", {"IN": "IN"}, {"OUT": "OUT"}))
    await world.load("outer")
    np.testing.assert_array_equal((await world.ask("outer", IN=X))["OUT"], X + 11)
    await world.unload("plus10")
    for name in ("chain", "outer"):
        assert world.states(name)["1"] == ("UNAVAILABLE", "unloaded")
    await world.load("plus10")
    np.testing.assert_array_equal((await world.ask("outer", IN=X))["OUT"], X + 11)


async def test_an_ensemble_that_was_unloaded_itself_stays_away(world):
    write_ensemble(world.path, "chain", CHAIN)
    await world.load("chain")
    await world.unload("plus10")
    await world.unload("chain")
    await world.load("plus10")
    with pytest.raises(NotFound):
        await world.ask("chain", IN=X)


async def test_unloading_a_model_loses_no_request_of_an_ensemble_over_it(world):
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "middle"}) + step(
        "plus1", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"}
    )
    write_ensemble(world.path, "late", steps)
    await world.load("late")
    futures = [world.submit(head_of("late", {"IN": X}), data_of({"IN": X}))[1] for _ in range(5)]
    await world.unload("plus1")
    for future in futures:
        assert isinstance(await future, InferResponse)


async def test_shutting_down_loses_no_request_of_an_ensemble(tmp_path):
    write_adders(tmp_path)
    write_config(tmp_path, "slow", SLOW)
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "middle"}) + step(
        "plus1", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"}
    )
    write_ensemble(tmp_path, "late", steps)
    async with core_world(tmp_path) as world:
        await world.load("late")
        futures = [
            world.submit(head_of("late", {"IN": X}), data_of({"IN": X}))[1] for _ in range(5)
        ]
        world.core.begin_exit()
    for future in futures:
        assert isinstance(await future, InferResponse)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            step("nobody", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}),
            "ensemble e contains models that are not available or ambiguous: nobody",
        ),
        (
            step("wrong", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}),
            "ensemble 'e' depends on 'wrong' which has no loaded version. Model 'wrong' loading "
            "failed with error: ",
        ),
        (
            step("plus1", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}, version=7),
            "ensemble 'e' depends on 'plus1' whose required version 7 is not loaded.",
        ),
        (
            step("plus1", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}, version=0),
            "ensemble 'e' depends on 'plus1' whose required version 0 is not loaded.",
        ),
        (
            step("plus1", {"x": "IN"}, {"OUTPUT0": "OUT"}),
            "in ensemble e, ensemble tensor IN is mapping to non-existing input x in model plus1",
        ),
        (
            step("plus1", {"INPUT0": "IN"}, {"y": "OUT"}),
            "in ensemble e, ensemble tensor OUT is mapped from non-existing output y in model plus1",
        ),
        (
            step("e2", {"IN": "IN"}, {"OUT": "OUT"}),
            "circular dependency between ensembles: e -> e2 -> e",
        ),
    ],
)
async def test_what_does_not_fit_the_models_is_told(world, steps, text):
    write_config(world.path, "wrong", 'backend: "nothing"')
    write_ensemble(world.path, "e", steps)
    write_ensemble(world.path, "e2", step("e", {"IN": "IN"}, {"OUT": "OUT"}))
    async with asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(InvalidArgument) as fault:
            await world.load("e")
    assert fault.value.text.startswith("load failed for model 'e': version 1 is at UNAVAILABLE")
    assert text in fault.value.text


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_request_under_way_ends_well_when_the_models_go_right_after_the_ensemble(
    world, at_once
):
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "middle"}) + step(
        "plus1", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"}
    )
    write_ensemble(world.path, "late", steps)
    await world.load("late")
    _, future = world.submit(head_of("late", {"IN": X}), data_of({"IN": X}))
    await eventually(lambda: world.core.inflight().get(("slow", 1)) == 1)
    await world.core.unload("late", unload_dependents=at_once)
    if not at_once:
        await world.unload("plus1")
        await world.unload("slow")
    answer = await future
    assert isinstance(answer, InferResponse), answer
    np.testing.assert_array_equal(np.frombuffer(answer.data[0], np.float32), (X + 1)[0])
    assert not world.core.model_ready("plus1", "1")
