"""A sequence stays on the load where it began: reloads, unloads, new versions, traffic tables, the exit."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.scheduling.sequence_scheduler import SequenceScheduler
from tests.inference_runtime.core_world import (
    arrays_of,
    core_world,
    data_of,
    eventually,
    head_of,
)
from tests.onnx_models import write_model
from tests.sequence_models import accumulator, accumulator_config


def write(path, *, version=1, idle_us=60_000_000, **more):
    config = accumulator_config(idle_us=idle_us, **more)
    write_model(path, "seq", accumulator(), version=version, config=config)


@pytest.fixture
async def world(tmp_path):
    write(tmp_path)
    async with core_world(tmp_path) as world:
        await world.load("seq")
        yield world
        # What is still open would keep the world from ending for as long as it may be idle.
        for scheduler in schedulers(world):
            for id_ in filter(scheduler.holds, range(1, 200)):
                await step(world, id_, 0, "e")


def schedulers(world) -> list[SequenceScheduler]:
    found = [loaded.scheduler for loaded in world.registry.at_work()]
    return [scheduler for scheduler in found if isinstance(scheduler, SequenceScheduler)]


async def answer(world, id_, value, flags="", **more):
    inputs = {"INPUT0": np.array([[value]], np.int32)}
    head = replace(
        head_of("seq", inputs, more.pop("version", "")),
        sequence_id=id_,
        sequence_start="s" in flags,
        sequence_end="e" in flags,
    )
    return await world.answer(head, data_of(inputs), **more)


async def step(world, id_, value, flags="", **more) -> int:
    """OUTPUT0; raises the fault."""
    result = await answer(world, id_, value, flags, **more)
    if isinstance(result, RuntimeFault):
        raise result
    return int(arrays_of(result)["OUTPUT0"][0, 0])


def at_work(world):
    return len(world.registry.at_work())


async def test_a_sequence_goes_on_over_a_reload(world, tmp_path):
    assert await step(world, 1, 5, "s") == 5
    write(tmp_path, more='parameters { key: "a" value { string_value: "b" } }')
    await world.load("seq")
    assert at_work(world) == 2
    assert await step(world, 2, 100, "s") == 100
    assert await step(world, 1, 6) == 11
    assert await step(world, 2, 1, "e") == 101
    assert await step(world, 1, 7, "e") == 18
    await eventually(lambda: at_work(world) == 1, "the old load's end")
    with pytest.raises(InvalidArgument, match="must specify the START flag"):
        await step(world, 1, 1)


async def test_a_sequence_goes_on_over_a_change_of_instances(world, tmp_path):
    """The same copies under another scheduler: what was begun stays with the one that holds its state."""
    assert await step(world, 1, 5, "s") == 5
    write(tmp_path, group="instance_group { kind: KIND_CPU count: 3 }")
    await world.load("seq")
    assert at_work(world) == 2
    assert await step(world, 2, 100, "s") == 100
    assert await step(world, 1, 6, "e") == 11
    await eventually(lambda: at_work(world) == 1, "the old scheduler's end")
    assert await step(world, 2, 1, "e") == 101


async def test_a_sequence_that_starts_over_does_so_on_the_new_load(world, tmp_path):
    assert await step(world, 1, 5, "s") == 5
    write(tmp_path, more='parameters { key: "a" value { string_value: "b" } }')
    await world.load("seq")
    assert await step(world, 1, 50, "s") == 50
    assert await step(world, 1, 1) == 51
    new = world.registry.serving("seq")[1]
    assert new.scheduler.holds(1)


async def test_an_idle_sequence_does_not_hold_an_old_load_for_ever(tmp_path):
    write(tmp_path, idle_us=300_000)
    async with core_world(tmp_path) as world:
        await world.load("seq")
        assert await step(world, 1, 5, "s") == 5
        write(tmp_path, idle_us=200_000)
        await world.load("seq")
        await eventually(lambda: at_work(world) == 1, "the old load's end")


async def test_an_unloaded_model_finishes_its_sequences_and_begins_none(world):
    assert await step(world, 1, 5, "s") == 5
    await world.unload("seq")
    with pytest.raises(RuntimeFault, match="has no available versions"):
        await step(world, 2, 1, "s")
    with pytest.raises(RuntimeFault, match="has no available versions"):
        await step(world, 2, 1)
    assert await step(world, 1, 6) == 11
    assert await step(world, 1, 7, "e", version="1") == 18
    await eventually(lambda: at_work(world) == 0, "the end of the unload")
    assert world.states("seq")["1"] == ("UNAVAILABLE", "unloaded")


async def test_a_new_latest_version_gets_new_sequences_only(world, tmp_path):
    assert await step(world, 1, 5, "s") == 5
    write(tmp_path, version=2)
    await world.load("seq")
    result = await answer(world, 2, 1, "s")
    assert result.head.model_version == "2"
    result = await answer(world, 1, 6, "e")
    assert result.head.model_version == "1"
    assert int(arrays_of(result)["OUTPUT0"][0, 0]) == 11
    assert await step(world, 2, 2, "e") == 3


async def test_a_sequence_keeps_its_arm_when_shares_move(world, tmp_path):
    write(tmp_path, version=2, more="version_policy { all { } }")
    await world.load("seq")
    await put_table(world, 1, canary=0.5)
    versions = {}
    for id_ in range(1, 5):
        result = await answer(world, id_, id_, "s")
        versions[id_] = result.head.model_version
    await put_table(world, 2, canary=0.0 if "2" in versions.values() else 1.0)
    for id_ in range(1, 5):
        result = await answer(world, id_, 10, "e")
        assert result.head.model_version == versions[id_]
        assert int(arrays_of(result)["OUTPUT0"][0, 0]) == id_ + 10


async def test_the_requests_of_a_sequence_go_to_one_arm(world, tmp_path):
    write(tmp_path, version=2, more="version_policy { all { } }")
    await world.load("seq")
    await put_table(world, 1, canary=0.5)
    met = set()
    for id_ in range(1, 30):
        found = {
            (await answer(world, id_, 1, flags)).head.model_version for flags in ("s", "", "e")
        }
        assert len(found) == 1
        met |= found
    assert met == {"1", "2"}


async def put_table(world, generation, *, canary):
    await world.core.traffic_put(
        "seq",
        {
            "generation": generation,
            "salt": "s",
            "arms": [
                {"model": "seq", "version": 1, "role": "stable", "weight": 1 - canary},
                {"model": "seq", "version": 2, "role": "canary", "weight": canary},
            ],
        },
    )


async def test_sequences_may_end_while_the_server_stops(world):
    assert await step(world, 1, 5, "s") == 5
    world.core.begin_exit()
    with pytest.raises(RuntimeFault, match="has stopped accepting new inference requests"):
        await step(world, 2, 1, "s")
    assert await step(world, 1, 6, "e") == 11


async def test_no_request_is_lost_while_loads_replace_each_other(world, tmp_path):
    """Ten clients with sequences of random length, five reloads."""
    over = asyncio.Event()

    async def client(number):
        done = 0
        while not over.is_set():
            id_ = number * 1_000_000 + done + 1
            for n in range(1, 6):
                flags = "s" * (n == 1) + "e" * (n == 5)
                assert await step(world, id_, n, flags) == n * (n + 1) // 2
            done += 1
        return done

    clients = [asyncio.ensure_future(client(number)) for number in range(1, 11)]
    for number in range(5):
        await asyncio.sleep(0.05)
        write(tmp_path, more=f'parameters {{ key: "a" value {{ string_value: "{number}" }} }}')
        await world.load("seq")
    over.set()
    done = await asyncio.gather(*clients)
    assert min(done) > 0
    await eventually(lambda: at_work(world) == 1, "the end of the old loads")
