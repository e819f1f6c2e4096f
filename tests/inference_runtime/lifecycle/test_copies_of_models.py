"""Local copies of models from object storage live exactly as long as something stands on them."""

import asyncio
import secrets

import fsspec
import numpy as np
import pytest

from inference_runtime.errors import RuntimeFault
from inference_runtime.repository.locations import open_store, read_location
from inference_runtime.repository.model_cache import ModelCache
from tests.inference_runtime.core_world import core_world, data_of, eventually, head_of
from tests.onnx_models import add_constant, slow

ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}
ALL = b"version_policy { all { } } "


class Bucket:
    """A repository in fsspec's memory."""

    def __init__(self, cache) -> None:
        self._root = f"/{secrets.token_hex(6)}/r"
        self._files = fsspec.filesystem("memory")
        self.store = open_store(read_location(f"memory:/{self._root}", {}), cache)

    def put(self, path: str, content: bytes) -> None:
        self._files.pipe_file(f"{self._root}/{path}", content)

    def model(self, constant: float, version=1) -> None:
        self.put(f"m/{version}/model.onnx", add_constant(constant).SerializeToString())


@pytest.fixture
def cache(tmp_path):
    cache = ModelCache(tmp_path / "cache")
    yield cache
    cache.close()


@pytest.fixture
def bucket(cache):
    bucket = Bucket(cache)
    bucket.put("m/config.pbtxt", ALL)
    bucket.model(1)
    return bucket


@pytest.fixture
def copies(tmp_path):
    root = tmp_path / "cache"
    return lambda: len(list(root.iterdir())) if root.exists() else 0


async def value(world, version="") -> float:
    return float((await world.ask("m", version, **ZERO))["OUTPUT0"][0, 0])


async def test_a_load_a_partial_reload_and_an_unload(tmp_path, bucket, copies):
    async with core_world(tmp_path, stores=[bucket.store]) as world:
        assert world.states("m") == {"": ("", "")}
        assert copies() == 0
        await world.load("m")
        await world.load("m")
        assert copies() == 1
        first = world.registry.serving("m")[1]
        bucket.model(2, version=2)
        await world.load("m")
        assert world.registry.serving("m")[1] is first
        assert [await value(world, "1"), await value(world, "2")] == [1, 2]
        assert copies() == 2  # version 1 stands on the first, version 2 on the second
        bucket.model(10)
        await world.load("m")
        assert [await value(world, "1"), await value(world, "2")] == [10, 2]
        await eventually(lambda: copies() == 2)  # the first is gone, the third has come
        await world.unload("m")
        await eventually(lambda: copies() == 0)


async def test_other_instances_stand_on_the_files_of_those_there_are(tmp_path, bucket, copies):
    async with core_world(tmp_path, stores=[bucket.store]) as world:
        await world.load("m")
        for count in (2, 1, 3):
            bucket.put("m/config.pbtxt", ALL + b"instance_group { count: %d }" % count)
            await world.load("m")
            assert len(world.registry.serving("m")[1].instances) == count
        assert await value(world) == 1
        await world.unload("m")
        await eventually(lambda: copies() == 0)


async def test_a_reload_that_fails_leaves_no_copy_and_what_serves(tmp_path, bucket, copies):
    async with core_world(tmp_path, stores=[bucket.store]) as world:
        await world.load("m")
        for path, content in (("m/1/model.onnx", b"broken"), ("m/config.pbtxt", b"broken")):
            bucket.put(path, content)
            with pytest.raises(RuntimeFault):
                await world.load("m")
            await eventually(lambda: copies() == 1)
        assert await value(world) == 1


async def test_files_stay_while_a_request_is_in_flight(tmp_path, bucket, copies):
    bucket.put("slow/1/model.onnx", slow().SerializeToString())
    async with core_world(tmp_path, stores=[bucket.store]) as world:
        await world.load("slow")
        inputs = {"ITERATIONS": np.array([3000], np.int64)}
        _, answer = world.submit(head_of("slow", inputs), data_of(inputs))
        await world.unload("slow")
        assert not answer.done()
        assert copies() == 1
        assert not isinstance(await answer, RuntimeFault)
        await eventually(lambda: copies() == 0)


async def test_loads_and_unloads_at_once_leave_nothing(tmp_path, bucket, copies):
    async with core_world(tmp_path, stores=[bucket.store]) as world:
        for number in range(6):
            bucket.model(number)
            await asyncio.gather(world.load("m"), world.unload("m"), world.load("m"))
        await world.unload("m")
        await eventually(lambda: copies() == 0)
