"""Decoupled steps of ensembles wait for the steps behind them, whatever the shape of the ensemble; none waits for ever."""

import asyncio
import time

import numpy as np
import pytest

from inference_runtime.errors import Cancelled
from inference_runtime.scheduling import ensemble_backpressure
from inference_runtime.spec.messages import InferRequest, InferResponse
from tests.inference_runtime.core_world import (
    WAIT_SECONDS,
    core_world,
    data_of,
    eventually,
    head_of,
)
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.repeat_models import REPEAT

HELD_ABOVE = 20
PORTION = 8
MOST_AHEAD = HELD_ABOVE + 2 * PORTION + 1
ONE = "data_type: TYPE_INT32 dims: [1]"
COUNT = "data_type: TYPE_UINT32 dims: [1]"
INPUTS = {
    "IN": "data_type: TYPE_INT32 dims: [-1]",
    "DELAY": "data_type: TYPE_UINT32 dims: [-1]",
    "WAIT": COUNT,
}
REPEAT_STEP = step("repeat", {name: name for name in INPUTS}, {"OUT": "value"})


def echo(delay_ms):
    return (
        f'backend: "identity" max_batch_size: 0 input {{ name: "A" {ONE} }} output {{ name: "A2" {ONE} }}'
        "instance_group { count: 1 kind: KIND_CPU }"
        f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{delay_ms}" }} }}'
    )


@pytest.fixture(autouse=True)
def low_bounds(monkeypatch):
    monkeypatch.setattr(ensemble_backpressure, "HELD_ABOVE", HELD_ABOVE)
    monkeypatch.setattr(ensemble_backpressure, "PORTION", PORTION)
    monkeypatch.setattr(ensemble_backpressure, "INNER_PORTION", 2)
    monkeypatch.setattr(ensemble_backpressure, "MOST_INNER_CALLS", 4)


@pytest.fixture
async def world(tmp_path):
    models = {
        "repeat": REPEAT,
        "other": REPEAT,
        "quick": echo(0),
        "slow": echo(2),
        "still": echo(300),
    }
    for name, config in models.items():
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    async with core_world(tmp_path) as world:
        yield world


async def serve(world, name, steps, outputs, inputs=INPUTS):
    write_ensemble(world.path, name, steps, inputs=inputs, outputs=outputs, more="")
    await world.load(name)


class Asked:
    """One request of a streaming model; `most` is the most that was under way in a model meanwhile."""

    def __init__(self, world, model, values, *, watched="slow", **more):
        self._world = world
        self._watched = watched
        self.responses: list[InferResponse] = []
        self.most = 0
        inputs = {
            "IN": np.array(values, np.int32),
            "DELAY": np.zeros(len(values), np.uint32),
            "WAIT": np.zeros(1, np.uint32),
            **{name: np.array([value], np.int32) for name, value in more.items()},
        }
        self.request, self._end = world.submit(
            head_of(model, inputs), data_of(inputs), partial=self._partial
        )

    def _partial(self, _: InferRequest, answer) -> None:
        assert isinstance(answer, InferResponse), answer
        self.responses.append(answer)

    def waiting(self):
        return self._world.core.inflight().get((self._watched, 1), 0)

    async def end(self):
        async with asyncio.timeout(WAIT_SECONDS):
            while not self._end.done():
                self.most = max(self.most, self.waiting())
                await asyncio.sleep(0.001)
        return self._end.result()

    async def values(self):
        end = await self.end()
        assert isinstance(end, InferResponse), end
        assert end.head.empty
        assert self._world.core.inflight() == {}
        return [int(np.frombuffer(each.data[0], np.int32)[0]) for each in self.responses]


def made(world):
    """Responses of `repeat` so far."""
    [stats] = world.core.model_statistics("repeat", "1").model_stats
    return len(stats.response_stats)


async def test_what_waits_for_a_slower_step_is_bounded_and_comes_in_order(world):
    steps = REPEAT_STEP + step("slow", {"A": "value"}, {"A2": "OUT"})
    await serve(world, "stream", steps, {"OUT": ONE})
    asked = Asked(world, "stream", range(300))
    assert await asked.values() == list(range(300))
    assert HELD_ABOVE < asked.most <= MOST_AHEAD


async def test_two_requests_wait_each_for_their_own(world):
    steps = REPEAT_STEP + step("slow", {"A": "value"}, {"A2": "OUT"})
    await serve(world, "stream", steps, {"OUT": ONE})
    both = [Asked(world, "stream", range(start, start + 150)) for start in (0, 1000)]
    ends = await asyncio.gather(*[each.end() for each in both])
    assert all(isinstance(end, InferResponse) for end in ends)
    assert [len(each.responses) for each in both] == [150, 150]
    assert max(each.most for each in both) <= 2 * MOST_AHEAD


async def test_the_gate_of_a_step_makes_its_producer_wait_and_fails_nothing(world):
    steps = REPEAT_STEP + step("slow", {"A": "value"}, {"A2": "OUT"}) + "max_inflight_requests: 2"
    await serve(world, "stream", steps, {"OUT": ONE})
    asked = Asked(world, "stream", range(300))
    assert await asked.values() == list(range(300))
    assert asked.most <= 2


async def test_producers_in_a_row_wait_for_the_last_step(world):
    steps = (
        REPEAT_STEP
        + step("other", {"IN": "value", "DELAY": "WAIT", "WAIT": "WAIT"}, {"OUT": "again"})
        + step("slow", {"A": "again"}, {"A2": "OUT"})
    )
    await serve(world, "row", steps, {"OUT": ONE})
    asked = Asked(world, "row", range(200))
    assert sorted(await asked.values()) == list(range(200))
    assert asked.most <= HELD_ABOVE + 4 * 2 * 2 + 1
    asked = Asked(world, "row", range(200), watched="other")
    assert sorted(await asked.values()) == list(range(200))
    assert asked.most <= 4


async def test_a_producer_waits_inside_an_ensemble_that_is_a_step_itself(world):
    await serve(world, "inner", REPEAT_STEP, {"value": ONE})
    steps = step("inner", {name: name for name in INPUTS}, {"value": "value"}) + step(
        "slow", {"A": "value"}, {"A2": "OUT"}
    )
    await serve(world, "outer", steps, {"OUT": ONE})
    asked = Asked(world, "outer", range(300))
    assert await asked.values() == list(range(300))
    assert HELD_ABOVE < asked.most <= MOST_AHEAD


async def test_responses_that_wait_for_a_step_beside_them_hold_their_producer_back(world):
    steps = REPEAT_STEP + step("still", {"A": "MORE"}, {"A2": "once"})
    await serve(world, "joined", steps, {"value": ONE, "once": ONE}, {**INPUTS, "MORE": ONE})
    asked = Asked(world, "joined", range(300), watched="still", MORE=5)
    await eventually(lambda: made(world) > HELD_ABOVE)
    while asked.waiting():
        seen = made(world)
        assert seen <= MOST_AHEAD or not asked.waiting()
        await asyncio.sleep(0.005)
    assert await asked.values() == list(range(300))


async def test_producers_whose_outputs_never_meet_do_not_wait_for_ever(world):
    steps = REPEAT_STEP + step(
        "other", {"IN": "MORE", "DELAY": "WAIT", "WAIT": "WAIT"}, {"OUT": "once"}
    )
    await serve(world, "uneven", steps, {"value": ONE, "once": ONE}, {**INPUTS, "MORE": ONE})
    assert await Asked(world, "uneven", range(300), MORE=5).values() == [0]


async def test_a_step_behind_of_the_same_model_does_not_hold_its_producer_back(world):
    steps = REPEAT_STEP + step(
        "repeat", {"IN": "value", "DELAY": "WAIT", "WAIT": "WAIT"}, {"OUT": "OUT"}
    )
    await serve(world, "twice", steps, {"OUT": ONE})
    asked = Asked(world, "twice", range(100))
    assert sorted(await asked.values()) == list(range(100))


async def test_a_producer_whose_steps_behind_stand_still_goes_on_by_portions(world, monkeypatch):
    monkeypatch.setattr(ensemble_backpressure, "STILL_SECONDS", 0.02)
    steps = REPEAT_STEP + step("still", {"A": "value"}, {"A2": "OUT"})
    await serve(world, "stream", steps, {"OUT": ONE})
    asked = Asked(world, "stream", range(MOST_AHEAD + 30), watched="still")
    await eventually(lambda: asked.waiting() > MOST_AHEAD + 10)
    world.core.cancel(asked.request)
    assert isinstance(await asked.end(), Cancelled)


async def test_cancelling_releases_a_producer_at_once(world):
    steps = REPEAT_STEP + step("still", {"A": "value"}, {"A2": "OUT"})
    await serve(world, "stream", steps, {"OUT": ONE})
    asked = Asked(world, "stream", range(1000), watched="still")
    await eventually(lambda: asked.waiting() > HELD_ABOVE)
    began = time.monotonic()
    world.core.cancel(asked.request)
    assert isinstance(await asked.end(), Cancelled)
    assert time.monotonic() - began < 5
    assert world.core.inflight() == {}


async def test_an_ensemble_is_unloaded_when_the_producer_in_it_has_made_all_of_it(world):
    await serve(world, "inner", REPEAT_STEP, {"value": ONE})
    steps = step("inner", {name: name for name in INPUTS}, {"value": "value"}) + step(
        "slow", {"A": "value"}, {"A2": "OUT"}
    )
    await serve(world, "outer", steps, {"OUT": ONE})
    asked = Asked(world, "outer", range(300))
    await eventually(lambda: asked.waiting() > HELD_ABOVE)
    await asyncio.gather(world.unload("outer"), world.unload("repeat"), world.unload("slow"))
    assert await asked.values() == list(range(300))
