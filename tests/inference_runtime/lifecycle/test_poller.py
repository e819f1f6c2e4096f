"""Poll mode follows the repository."""

import errno
import shutil

import numpy as np
import pytest

from inference_runtime.errors import Unavailable
from inference_runtime.lifecycle.start_up import ModelControlMode, asked_for
from inference_runtime.repository import store
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.repository.snapshot import take_snapshot
from inference_runtime.repository.store import DirectoryStore, StoreUnreachable
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


class FlakyStore(DirectoryStore):
    """A repository that does not answer while it is `away`."""

    away = False

    def names(self):
        if self.away:
            raise StoreUnreachable(f"model repository {self.location} can not be read: away")
        return super().names()


async def test_a_repository_that_does_not_answer_unloads_nothing_and_others_are_followed(
    tmp_path, caplog
):
    far, near = FlakyStore(tmp_path / "far"), DirectoryStore(tmp_path / "near")
    write_model(tmp_path / "far", "m", add_constant(1))
    write_model(tmp_path / "near", "n", add_constant(2))
    async with core_world(tmp_path, stores=[far, near], mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        before = world.registry.serving("m")
        far.away = True
        shutil.rmtree(tmp_path / "near/n")
        write_model(tmp_path / "near", "new", add_constant(3))
        # The same name elsewhere may be a duplicate: nobody can tell, so what serves stays.
        write_model(tmp_path / "near", "m", add_constant(9))
        for _ in range(3):
            await poller.poll()
        assert world.registry.serving("m") == before
        assert await answer_of(world, model="new") == 3
        assert not world.registry.serving("n")
        assert [r.message for r in caplog.records if "until it answers" in r.message] == [
            f"model repository {tmp_path / 'far'} can not be read: away; its models stay as they are "
            "until it answers"
        ]
        assert world.states("m") == {"1": ("READY", "")}
        far.away = False
        shutil.rmtree(tmp_path / "near/m")
        await poller.poll()
        assert world.registry.serving("m") == before
        assert "answers again" in caplog.text
        shutil.rmtree(tmp_path / "far/m")
        await poller.poll()
        assert not world.registry.serving("m")


async def test_a_directory_that_is_gone_for_a_moment_unloads_nothing(tmp_path):
    write_model(tmp_path / "r", "m", add_constant(1))
    async with core_world(tmp_path / "r", mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        (tmp_path / "r").rename(tmp_path / "elsewhere")
        await poller.poll()
        assert await answer_of(world) == 1
        (tmp_path / "elsewhere").rename(tmp_path / "r")
        await poller.poll()
        assert await answer_of(world) == 1


async def test_a_model_that_can_not_be_read_for_a_moment_goes_on(tmp_path, monkeypatch, caplog):
    write_model(tmp_path, "m", add_constant(1))
    write_model(tmp_path, "other", add_constant(2))

    def fails(directory):
        if directory.name == "m":
            raise OSError(errno.EIO, "Input/output error")
        return take_snapshot(directory)

    async with core_world(tmp_path, mode=ModelControlMode.POLL) as world:
        poller = world.poller()
        await poller.poll()
        before = world.registry.serving("m")
        monkeypatch.setattr(store, "take_snapshot", fails)
        shutil.rmtree(tmp_path / "other")
        await poller.poll()
        assert world.registry.serving("m") == before
        assert not world.registry.serving("other")
        assert "model 'm' can not be read now" in caplog.text
        monkeypatch.undo()
        await poller.poll()
        assert world.registry.serving("m") == before
        shutil.rmtree(tmp_path / "m")
        await poller.poll()
        assert not world.registry.serving("m")
