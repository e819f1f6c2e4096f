"""Decoupled models through the core: many answers per request, one end, and counters that add up."""

import asyncio

import numpy as np
import pytest

from inference_runtime.errors import Cancelled, InvalidArgument, SingleAnswerOnly
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse
from tests.inference_runtime.core_world import WAIT_SECONDS, core_world, data_of, head_of
from tests.inference_runtime.routing.ensembles import CHAIN, write_adders, write_ensemble
from tests.repeat_models import DECOUPLED, REPEAT_PORTS


@pytest.fixture
async def world(tmp_path):
    write(tmp_path, DECOUPLED)
    async with core_world(tmp_path) as world:
        await world.load("repeat")
        yield world


def write(path, more=""):
    (path / "repeat" / "1").mkdir(parents=True)
    (path / "repeat" / "config.pbtxt").write_text(REPEAT_PORTS + more)


def ask(world, values, *, delay_ms=0, delays=None):
    """The request, the list its partial answers go to, and a future of the last."""
    inputs = {
        "IN": np.array(values, np.int32),
        "DELAY": np.array(delays if delays is not None else [delay_ms] * len(values), np.uint32),
        "WAIT": np.array([0], np.uint32),
    }
    partials: list[Answer] = []
    request, future = world.submit(
        head_of("repeat", inputs),
        data_of(inputs),
        partial=lambda _, answer: partials.append(answer),
    )
    return request, partials, future


async def ended(future):
    async with asyncio.timeout(WAIT_SECONDS):
        return await future


async def test_each_response_comes_by_itself_and_the_end_comes_last(world):
    _, partials, future = ask(world, [5, 6, 7])
    end = await ended(future)
    assert isinstance(end, InferResponse)
    assert end.head.empty
    assert [np.frombuffer(each.data[0], np.int32)[0] for each in partials] == [5, 6, 7]
    assert [np.frombuffer(each.data[1], np.uint32)[0] for each in partials] == [0, 1, 2]


async def test_no_response_at_all_is_an_end_too(world):
    _, partials, future = ask(world, [])
    end = await ended(future)
    assert end.head.empty
    assert partials == []


async def test_a_caller_of_one_answer_is_refused(world):
    inputs = {
        "IN": np.array([1], np.int32),
        "DELAY": np.array([0], np.uint32),
        "WAIT": np.array([0], np.uint32),
    }
    head = head_of("repeat", inputs)
    assert isinstance(await world.answer(head, data_of(inputs)), SingleAnswerOnly)
    # The very same head, from a caller that takes many.
    _, future = world.submit(head, data_of(inputs), partial=lambda *_: None)
    assert isinstance(await ended(future), InferResponse)
    assert isinstance(await world.answer(head, data_of(inputs)), SingleAnswerOnly)


async def test_a_fault_of_the_model_ends_the_request(world):
    _, partials, future = ask(world, [1, 2], delays=[0])
    end = await ended(future)
    assert isinstance(end, InvalidArgument)
    assert end.text == "expected IN and DELAY shape to match"
    assert partials == []


async def test_a_cancelled_request_gets_no_more_answers_and_one_end(world):
    request, partials, future = ask(world, [1] * 1000, delay_ms=5)
    while not partials:
        await asyncio.sleep(0.005)
    world.core.cancel(request)
    seen = len(partials)
    assert isinstance(await ended(future), Cancelled)
    assert len(partials) == seen
    assert world.core.inflight() == {}


async def test_unloading_waits_for_the_last_answer(world):
    _, partials, future = ask(world, list(range(20)), delay_ms=10)
    await world.unload("repeat")
    end = await ended(future)
    assert end.head.empty
    assert len(partials) == 20


async def test_an_answer_that_can_not_be_handed_over_costs_nothing_else(world):
    def broken(request: InferRequest, answer: object) -> None:
        raise OSError("gone")

    request, _, future = ask(world, [1, 2])
    request.partial = broken
    assert (await ended(future)).head.empty
    assert world.core.inflight() == {}


async def executed(world, count):
    """The statistics once so many executions are counted: the last answer of one may come before its end."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            [stats] = world.core.model_statistics("repeat", "1").model_stats
            if stats.execution_count >= count:
                return stats
            await asyncio.sleep(0.005)


async def test_statistics_by_the_number_of_the_response(world):
    for values in ([1, 2], [1], []):
        await ended(ask(world, values)[2])
    await ended(ask(world, [1, 2], delays=[0])[2])
    stats = await executed(world, 4)
    counts = {
        index: (one.success.count, one.fail.count, one.empty_response.count)
        for index, one in stats.response_stats.items()
    }
    assert counts == {"0": (2, 1, 1), "1": (1, 0, 1), "2": (0, 0, 1)}
    assert stats.response_stats["0"].success.ns > 0
    assert (stats.inference_stats.success.count, stats.inference_stats.fail.count) == (3, 1)
    assert (stats.inference_count, stats.execution_count) == (3, 4)


async def test_models_that_answer_once_have_no_statistics_of_responses(tmp_path):
    write_adders(tmp_path)
    write_ensemble(tmp_path, "chain", CHAIN)
    async with core_world(tmp_path) as world:
        for name in ("plus1", "plus10", "chain"):
            await world.load(name)
        inputs = {"IN": np.zeros((1, 4), np.float32)}
        # As a stream asks, which does not look at the model.
        _, future = world.submit(head_of("chain", inputs), data_of(inputs), partial=lambda *_: None)
        assert isinstance(await ended(future), InferResponse)
        [stats] = world.core.model_statistics("chain", "1").model_stats
        assert stats.inference_stats.success.count == 1
        assert not stats.response_stats


async def test_the_repeat_backend_says_what_is_wrong_with_its_config(tmp_path):
    write(tmp_path, 'input { name: "X" data_type: TYPE_INT32 dims: [1] }' + DECOUPLED)
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument, match="no input or output 'X' of type INT32"):
            await world.load("repeat")
        (tmp_path / "repeat" / "config.pbtxt").write_text(REPEAT_PORTS)
        with pytest.raises(InvalidArgument, match="must be decoupled"):
            await world.load("repeat")
