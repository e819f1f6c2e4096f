"""Configs and files that come with a load request: what they replace, and for how long."""

import os

import numpy as np
import pytest

from inference_runtime.errors import Internal, RuntimeFault
from tests.inference_runtime.core_world import core_world, eventually
from tests.onnx_models import add_constant, write_model, write_versions

ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}
SECOND = '{"version_policy": {"specific": {"versions": [2]}}}'


async def answer_of(world, model="m"):
    return float((await world.ask(model, **ZERO))["OUTPUT0"][0, 0])


def two_versions(path):
    write_versions(path, 1, 2, name="m", policy="specific { versions: [1] }")
    return path / "m/config.pbtxt"


async def test_a_config_stays_until_a_file_changes(tmp_path):
    file = two_versions(tmp_path)
    async with core_world(tmp_path) as world:
        await world.load("m")
        assert await answer_of(world) == 1
        await world.load("m", config=SECOND)
        assert await answer_of(world) == 2
        await world.load("m")
        assert await answer_of(world) == 2
        os.utime(file)
        await world.load("m")
        assert await answer_of(world) == 1


async def test_a_config_does_not_outlive_an_unload(tmp_path):
    two_versions(tmp_path)
    async with core_world(tmp_path) as world:
        await world.load("m", config=SECOND)
        await world.unload("m")
        await world.load("m")
        assert await answer_of(world) == 1


async def test_a_config_that_can_not_be_meant_changes_nothing(tmp_path):
    two_versions(tmp_path)
    async with core_world(tmp_path) as world:
        await world.load("m")
        for config in ("{", '{"nonsense": 1}', '{"name": "other"}'):
            with pytest.raises(Internal, match="failed to load 'm', failed to poll"):
                await world.load("m", config=config)
        assert await answer_of(world) == 1


async def test_files_serve_in_place_of_the_directory_until_the_next_plain_load(tmp_path):
    repository, state = tmp_path / "repository", tmp_path / "state"
    write_model(repository, "m", add_constant(1))
    given = {
        "config": '{"backend": "onnxruntime"}',
        "file:1/model.onnx": add_constant(9).SerializeToString(),
    }
    async with core_world(repository, state=state) as world:
        for name in ("m", "new"):
            await world.load(name, **given)
            assert await answer_of(world, name) == 9
        with pytest.raises(Internal, match="'config' must be specified"):
            await world.load("m", **{"file:1/model.onnx": b"x"})
        assert await answer_of(world) == 9
        await world.load("m")
        assert await answer_of(world) == 1
        await world.unload("new")
        await eventually(lambda: not list((state / "overrides").iterdir()))


@pytest.mark.parametrize("path", ["../x", "/etc/x", "1/../../x", "x" * 256])
async def test_paths_that_leave_the_model_are_refused(tmp_path, path):
    repository, state = tmp_path / "repository", tmp_path / "state"
    write_model(repository, "m", add_constant(1))
    async with core_world(repository, state=state) as world:
        await world.load("m")
        with pytest.raises(Internal, match="failed to load 'm', failed to poll"):
            await world.load("m", config="{}", **{f"file:{path}": b"x"})
        assert await answer_of(world) == 1
        assert not (state / "overrides").exists()
        assert not (tmp_path / "x").exists()


async def test_a_failed_load_leaves_no_files(tmp_path):
    repository, state = tmp_path / "repository", tmp_path / "state"
    repository.mkdir()
    async with core_world(repository, state=state) as world:
        with pytest.raises(RuntimeFault):
            await world.load(
                "m",
                config='{"backend": "onnxruntime"}',
                **{"file:1/model.onnx": b"broken"},
            )
        assert list((state / "overrides").iterdir()) == []


async def test_a_restarted_server_loads_what_was_loaded(tmp_path):
    repository, state = tmp_path / "repository", tmp_path / "state"
    two_versions(repository)
    write_model(repository, "gone", add_constant(1))
    write_model(repository, "plain", add_constant(7))
    given = {
        "config": '{"backend": "onnxruntime"}',
        "file:1/model.onnx": add_constant(9).SerializeToString(),
    }
    async with core_world(repository, state=state) as world:
        await world.load("m", config=SECOND)
        await world.load("plain")
        await world.load("new", **given)
        await world.load("gone")
        await world.unload("gone")
    async with core_world(repository, state=state) as world:
        assert [await answer_of(world, name) for name in ("m", "plain", "new")] == [2, 7, 9]
        assert world.states("gone") == {"": ("", "")}
        (repository / "plain/1/model.onnx").write_bytes(b"broken")
    async with core_world(repository, state=state) as world:
        assert await answer_of(world, "new") == 9
        assert world.states("plain")["1"][0] == "UNAVAILABLE"
        write_model(repository, "plain", add_constant(8))
    async with core_world(repository, state=state) as world:
        assert await answer_of(world, "plain") == 8


async def test_without_a_state_directory_nothing_is_remembered(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
    async with core_world(tmp_path) as world:
        assert world.states("m") == {"": ("", "")}


@pytest.mark.parametrize("text", ["{", "[]", '{"models": 3}', '{"models": [{"x": 1}]}', "\0"])
async def test_a_broken_state_file_is_set_aside_and_not_fatal(tmp_path, text):
    repository, state = tmp_path / "repository", tmp_path / "state"
    write_model(repository, "m", add_constant(1))
    state.mkdir()
    (state / "models.json").write_text(text)
    (state / "traffic.json").write_text(text)
    async with core_world(repository, state=state) as world:
        await world.load("m")
        assert await answer_of(world) == 1
        assert (state / "models.json.broken-1").read_text() == text
        assert (state / "traffic.json.broken-1").read_text() == text
