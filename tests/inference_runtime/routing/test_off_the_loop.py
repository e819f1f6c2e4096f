"""Slow repositories and slow disks hold up nobody's inference, and changes stay in the order they came."""

import asyncio
import json
import threading

import numpy as np
import pytest

from inference_runtime.errors import Conflict
from inference_runtime.lifecycle.state_file import StateFile
from inference_runtime.repository.store import DirectoryStore
from tests.inference_runtime.core_world import WAIT_SECONDS, core_world, eventually
from tests.onnx_models import add_constant, write_model

ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}


class Gate:
    """Work that waits in its thread until it is opened."""

    def __init__(self) -> None:
        self.waiting = 0
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def passage(self) -> None:
        self.waiting += 1
        assert self._open.wait(WAIT_SECONDS)


class SlowStore(DirectoryStore):
    def __init__(self, root, gate: Gate) -> None:
        super().__init__(root)
        self._gate = gate

    def names(self):
        self._gate.passage()
        return super().names()


async def value(world) -> float:
    return float((await world.ask("m", **ZERO))["OUTPUT0"][0, 0])


def table(generation: int):
    arm = {"model": "m", "version": 1, "role": "stable", "weight": 1.0}
    return {"generation": generation, "salt": "s", "arms": [arm]}


async def test_an_index_of_a_slow_repository(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    gate = Gate()
    async with core_world(tmp_path, stores=[SlowStore(tmp_path, gate)]) as world:
        await world.load("m")
        gate.close()
        index = asyncio.create_task(world.core.repository_index(False))
        await eventually(lambda: gate.waiting > 0)
        assert await value(world) == 1
        await world.unload("m")  # waits for no repository
        assert not index.done()
        gate.open()
        assert [entry.name for entry in await index] == ["m"]


@pytest.fixture
def slow_disk(monkeypatch):
    gate = Gate()
    write = StateFile.write

    def slow(self, body):
        gate.passage()
        write(self, body)

    monkeypatch.setattr(StateFile, "write", slow)
    return gate


async def test_traffic_tables_are_written_one_after_the_other(tmp_path, slow_disk):
    write_model(tmp_path / "r", "m", add_constant(1))
    state = tmp_path / "state"
    async with core_world(tmp_path / "r", state=state) as world:
        await world.load("m")
        slow_disk.close()
        before = slow_disk.waiting
        changes = [asyncio.create_task(world.core.traffic_put("m", table(g))) for g in (1, 2, 3)]
        late = asyncio.create_task(world.core.traffic_put("m", table(2)))
        await eventually(lambda: slow_disk.waiting > before)
        assert await value(world) == 1
        assert world.core.traffic_tables() == []  # not in force before it is on disk
        assert slow_disk.waiting == before + 1
        slow_disk.open()
        assert [(await change)["generation"] for change in changes] == [1, 2, 3]
        with pytest.raises(Conflict):
            await late
        assert world.core.traffic_table("m")["generation"] == 3
        kept = json.loads((state / "traffic.json").read_bytes())
        assert [entry["generation"] for entry in kept["tables"]] == [3]


async def test_a_caller_that_goes_away_leaves_a_whole_change(tmp_path, slow_disk):
    write_model(tmp_path / "r", "m", add_constant(1))
    async with core_world(tmp_path / "r", state=tmp_path / "state") as world:
        await world.load("m")
        slow_disk.close()
        before = slow_disk.waiting
        change = asyncio.create_task(world.core.traffic_put("m", table(1)))
        await eventually(lambda: slow_disk.waiting > before)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        slow_disk.open()
        await eventually(lambda: world.core.traffic_tables() != [])
        assert world.core.traffic_table("m")["generation"] == 1
