"""Poll mode follows the repository."""

import shutil

import numpy as np
import pytest

from inference_runtime.errors import Unavailable
from inference_runtime.lifecycle.start_up import ModelControlMode, asked_for
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.repository.store import DirectoryStore
from tests.inference_runtime.core_world import core_world, eventually
from tests.onnx_models import add_constant, write_model

ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}


async def answer_of(world, version="", model="m"):
    return float((await world.ask(model, version, **ZERO))["OUTPUT0"][0, 0])


async def test_added_changed_and_removed_models_are_followed(tmp_path):
    async with core_world(tmp_path, mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        write_model(tmp_path, "m", add_constant(1))
        await poller.poll()
        assert await answer_of(world) == 1
        before = world.registry.serving("m")
        await poller.poll()
        assert world.registry.serving("m") == before
        write_model(tmp_path, "m", add_constant(2), version=2)
        await poller.poll()
        assert await answer_of(world) == 2
        with pytest.raises(Unavailable, match="version 1 is not at ready state"):
            await answer_of(world, "1")
        shutil.rmtree(tmp_path / "m")
        await poller.poll()
        await eventually(lambda: world.states("m")["2"] == ("UNAVAILABLE", "unloaded"))


async def test_a_model_that_does_not_load_is_tried_again_only_when_it_changes(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    (tmp_path / "m/1/model.onnx").write_bytes(b"broken")
    async with core_world(tmp_path, mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        assert world.states("m")["1"][0] == "UNAVAILABLE"
        model = world.registry.record("m")
        assert model is not None
        record = model.versions[1]
        record.reason = "untouched"
        await poller.poll()
        assert record.reason == "untouched"
        write_model(tmp_path, "m", add_constant(1))
        await poller.poll()
        assert await answer_of(world) == 1


async def test_a_model_that_did_not_load_is_forgotten_with_its_directory(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    (tmp_path / "m/1/model.onnx").write_bytes(b"broken")
    async with core_world(tmp_path, mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        assert not world.core.ready()
        shutil.rmtree(tmp_path / "m")
        await poller.poll()
        assert world.core.ready()


async def test_a_duplicate_is_unloaded_until_it_is_gone(tmp_path):
    roots = [tmp_path / "one", tmp_path / "two"]
    write_model(roots[0], "m", add_constant(1))
    roots[1].mkdir()
    async with core_world(tmp_path, roots=roots, mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        write_model(roots[1], "m", add_constant(2))
        await poller.poll()
        assert world.states("m") == {
            "": ("UNAVAILABLE", "model appears in two or more repositories")
        }
        assert not world.registry.serving("m")
        shutil.rmtree(roots[1] / "m")
        await poller.poll()
        assert await answer_of(world) == 1


def test_what_a_start_loads(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "one" / name).mkdir(parents=True)
    (tmp_path / "two/b").mkdir(parents=True)
    repository = ModelRepository(
        [DirectoryStore(tmp_path / "one"), DirectoryStore(tmp_path / "two")]
    )
    everything = asked_for(ModelControlMode.NONE, (), repository)
    assert everything == {"a": "", "b": "'b': model appears in two or more repositories"}
    assert asked_for(ModelControlMode.EXPLICIT, (), repository) == {}
    assert asked_for(ModelControlMode.EXPLICIT, ("*",), repository) == everything
    assert asked_for(ModelControlMode.EXPLICIT, ("x",), repository) == {"x": ""}
    assert asked_for(ModelControlMode.EXPLICIT, ("x", "*"), repository)["*"]
