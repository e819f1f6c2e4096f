"""What an ensemble keeps in the response cache, and what makes it forget."""

import numpy as np
import pytest

from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.scheduler import SharedParts
from inference_runtime.telemetry.statistics_message import model_statistics
from tests.inference_runtime.core_world import core_world
from tests.inference_runtime.routing.ensembles import CHAIN, step, write_adders, write_ensemble
from tests.onnx_models import add_constant, write_model

BOTH = "version_policy { specific { versions: [1, 2] } }"
CACHED = "max_batch_size: 4 response_cache { enable: true }"


@pytest.fixture
async def world(tmp_path):
    write_adders(tmp_path)
    write_model(tmp_path, "plus1", add_constant(1), config=BOTH)
    write_model(tmp_path, "plus1", add_constant(2), version=2, config=BOTH)
    write_ensemble(tmp_path, "chain", CHAIN, more=CACHED)
    outer = step("chain", {"IN": "IN"}, {"OUT": "OUT"})
    write_ensemble(tmp_path, "outer", outer, more=CACHED)
    shared = SharedParts(cache=ResponseCache(1 << 20))
    async with core_world(tmp_path, shared=shared) as running:
        await running.load("outer")
        yield running


async def value(world, model: str) -> float:
    answer = await world.ask(model, IN=np.zeros((1, 4), np.float32))
    return float(answer["OUT"][0, 0])


def hits(world, model: str) -> int:
    (loaded,) = world.registry.serving(model).values()
    return int(model_statistics(loaded.stats).inference_stats.cache_hit.count)


async def test_the_second_equal_request_reaches_no_step(world):
    assert [await value(world, "chain") for _ in range(3)] == [12.0] * 3
    assert hits(world, "chain") == 2
    (step_loaded,) = world.registry.serving("plus10").values()
    assert model_statistics(step_loaded.stats).execution_count == 1


async def test_a_step_that_is_loaded_anew_is_asked_anew(world):
    assert [await value(world, name) for name in ("outer", "chain")] == [12.0, 12.0]
    write_model(world.path, "plus10", add_constant(100))
    await world.load("plus10")
    assert [await value(world, name) for name in ("outer", "chain")] == [102.0, 102.0]
    assert world.registry.serving("chain")


async def test_a_step_with_another_traffic_table_is_asked_anew(world):
    def table(generation, version):
        arm = {"model": "plus1", "version": version, "role": "stable", "weight": 1.0}
        return {
            "model": "plus1",
            "generation": generation,
            "salt": "s",
            "unit_header": "",
            "arms": [arm],
        }

    assert await value(world, "outer") == 12.0
    await world.core.traffic_put("plus1", table(1, 1))
    assert await value(world, "outer") == 11.0
    await world.core.traffic_put("plus1", table(2, 2))
    assert await value(world, "outer") == 12.0
    await world.core.traffic_put("plus1", table(3, 1))
    await world.core.traffic_delete("plus1")
    assert await value(world, "outer") == 12.0


async def test_other_models_make_it_forget_nothing(world):
    await value(world, "chain")
    await world.load("broken")
    await value(world, "chain")
    assert hits(world, "chain") == 1
