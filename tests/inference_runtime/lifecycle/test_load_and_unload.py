"""Loads, reloads and unloads through the core: states, reasons, and nothing lost on the way."""

import asyncio
import os
import shutil
import threading

import numpy as np
import pytest

from inference_runtime.errors import Internal, InvalidArgument, NotFound, RuntimeFault, Unavailable
from inference_runtime.lifecycle.start_up import ModelControlMode
from tests.inference_runtime.core_world import core_world, data_of, eventually, head_of
from tests.inference_runtime.routing.ensembles import CHAIN, write_adders, write_ensemble
from tests.onnx_models import add_constant, add_sub, slow, write_model, write_versions

ALL = "version_policy { all { } }"
ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}


async def answer_of(world, version="", model="m"):
    return float((await world.ask(model, version, **ZERO))["OUTPUT0"][0, 0])


async def test_nothing_is_loaded_until_asked_for(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        assert world.states("m") == {"": ("", "")}
        with pytest.raises(NotFound, match="Request for unknown model: 'm' is not found"):
            await answer_of(world)
        await world.load("m")
        assert world.states("m") == {"1": ("READY", "")}
        assert await answer_of(world) == 1
        await world.unload("m")
        await eventually(lambda: world.states("m") == {"1": ("UNAVAILABLE", "unloaded")})
        assert world.core.ready()
        with pytest.raises(
            NotFound, match="Request for unknown model: 'm' has no available versions"
        ):
            await answer_of(world)
        with pytest.raises(Unavailable, match="version 1 is not at ready state"):
            await answer_of(world, "1")
        await world.load("m")
        assert await answer_of(world) == 1


async def test_versions_are_chosen_by_policy_and_asked_for_by_number(tmp_path):
    write_versions(tmp_path, 1, 2, 3, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        assert [await answer_of(world, str(n)) for n in (1, 2, 3)] == [1, 2, 3]
        assert await answer_of(world) == 3
        with pytest.raises(NotFound, match="version 9 is not found"):
            await answer_of(world, "9")
        with pytest.raises(InvalidArgument, match="failed to get model version from specified"):
            await answer_of(world, "x")
        (tmp_path / "m/config.pbtxt").write_text("version_policy { specific { versions: [1, 2] } }")
        await world.load("m")
        assert await answer_of(world) == 2
        await eventually(lambda: world.states("m")["3"] == ("UNAVAILABLE", "unloaded"))


async def test_versions_that_did_not_change_stay_loaded(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        before = world.registry.serving("m")
        await world.load("m")
        assert world.registry.serving("m") == before
        write_model(tmp_path, "m", add_constant(20), version=2)
        write_model(tmp_path, "m", add_constant(3), version=3)
        await world.load("m")
        after = world.registry.serving("m")
        assert after[1] is before[1]
        assert after[2] is not before[2]
        assert [await answer_of(world, str(n)) for n in (1, 2, 3)] == [1, 20, 3]
        (tmp_path / "m/labels.txt").write_text("shared by all")
        await world.load("m")
        assert world.registry.serving("m")[1] is not before[1]


def instances(count):
    return f"{ALL} instance_group {{ kind: KIND_CPU count: {count} }}"


async def test_other_instance_counts_keep_copies_counters_and_requests(tmp_path):
    for version in (1, 2):
        write_model(tmp_path, "m", add_constant(version), version=version, config=instances(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
        before = world.registry.serving("m")[1]
        assert await answer_of(world, "1") == 1
        for count in (3, 1, 2):
            (tmp_path / "m/config.pbtxt").write_text(instances(count))
            streams = [asyncio.create_task(answer_of(world, "1")) for _ in range(8)]
            await world.load("m")
            assert await asyncio.gather(*streams) == [1] * 8
            after = world.registry.serving("m")[1]
            assert after.instances[0].backend is before.instances[0].backend
            assert len(after.instances) == count
            assert world.core.model_config("m", "1").instance_group[0].count == count
            statistics = world.core.model_statistics("m", "1").model_stats[0]
            assert statistics.inference_count > 1
            gauges = world.core.switchyard_statistics()["models"][0]
            assert gauges["instances"] == count
            await eventually(lambda: len(world.registry.at_work()) == 2)
        await world.unload("m")
        await eventually(lambda: not world.registry.at_work())
        await world.load("m")
        assert await answer_of(world, "1") == 1


async def test_an_impossible_instance_group_leaves_what_served(tmp_path):
    for version in (1, 2):
        write_model(tmp_path, "m", add_constant(version), version=version, config=instances(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
        (tmp_path / "m/config.pbtxt").write_text(f"{ALL} instance_group {{ kind: KIND_GPU }}")
        with pytest.raises(InvalidArgument, match="has kind KIND_GPU but"):
            await world.load("m")
        (tmp_path / "m/config.pbtxt").write_text(instances(2))
        write_model(tmp_path, "m", add_constant(2), version=3)
        (tmp_path / "m/3/model.onnx").write_bytes(b"broken")
        with pytest.raises(InvalidArgument, match="version 3 is at UNAVAILABLE state"):
            await world.load("m")
        await eventually(lambda: len(world.registry.at_work()) == 2)
        assert await answer_of(world, "1") == 1
        assert world.core.switchyard_statistics()["models"][0]["instances"] == 1


async def test_a_failed_load_says_which_version_and_why_and_fails_again(tmp_path):
    for version in (1, 2):
        write_model(tmp_path, "m", add_constant(1), version=version, config=ALL)
    (tmp_path / "m/2/model.onnx").write_bytes(b"broken")
    async with core_world(tmp_path) as world:
        for _ in range(2):
            with pytest.raises(InvalidArgument) as caught:
                await world.load("m")
            assert caught.value.text.startswith(
                "load failed for model 'm': version 2 is at UNAVAILABLE state: Internal: onnx runtime error 7"
            )
            assert caught.value.text.endswith(";\n")
        assert world.states("m")["1"] == ("UNAVAILABLE", "unloaded")
        assert world.states("m")["2"][0] == "UNAVAILABLE"
        assert "onnx runtime error 7" in world.states("m")["2"][1]
        assert not world.core.ready()
        assert world.core.live()
    async with core_world(tmp_path, strict_readiness=False) as world:
        with pytest.raises(InvalidArgument):
            await world.load("m")
        assert world.core.ready()


async def test_a_reload_that_fails_leaves_what_served(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
        (tmp_path / "m/1/model.onnx").write_bytes(b"broken")
        with pytest.raises(InvalidArgument):
            await world.load("m")
        assert await answer_of(world) == 1
        assert world.states("m") == {"1": ("READY", "")}
        (tmp_path / "m/config.pbtxt").write_text("max_batch_size: nonsense")
        with pytest.raises(
            Internal, match="failed to load 'm', failed to poll from model repository"
        ):
            await world.load("m")
        assert await answer_of(world) == 1
        write_model(tmp_path, "m", add_constant(5), config="")
        await world.load("m")
        assert await answer_of(world) == 5


async def test_an_unload_of_what_did_not_load_makes_the_server_ready_again(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    (tmp_path / "m/1/model.onnx").write_bytes(b"broken")
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument):
            await world.load("m")
        assert not world.core.ready()
        await world.unload("m")
        assert world.core.ready()
        assert world.states("m") == {"1": ("UNAVAILABLE", "unloaded")}


async def test_an_unload_does_not_wait_for_loads_of_other_models(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    go = threading.Event()
    async with core_world(tmp_path) as world:
        await world.load("m")
        busy = [asyncio.create_task(world.loader.threads.loading(go.wait)) for _ in range(8)]
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(world.unload("m"), 5)
            assert not world.registry.serving("m")
        finally:
            go.set()
            await asyncio.gather(*busy)


@pytest.mark.parametrize("config", [None, "version_policy { specific { versions: [1] } }"])
async def test_a_version_that_did_not_load_and_is_wanted_no_more_does_not_count(tmp_path, config):
    write_model(tmp_path, "m", add_constant(1), config=ALL)
    async with core_world(tmp_path) as world:
        await world.load("m")
        write_model(tmp_path, "m", add_constant(2), version=2)
        (tmp_path / "m/2/model.onnx").write_bytes(b"broken")
        with pytest.raises(InvalidArgument, match="version 2 is at UNAVAILABLE state"):
            await world.load("m")
        assert not world.core.ready()
        if config is None:
            shutil.rmtree(tmp_path / "m/2")
        else:
            (tmp_path / "m/config.pbtxt").write_text(config)
        await world.load("m")
        assert world.core.ready()
        assert world.states("m") == {"1": ("READY", ""), "2": ("UNAVAILABLE", "unloaded")}


async def test_no_version_under_the_policy_is_a_failure(tmp_path):
    write_model(
        tmp_path, "m", add_constant(1), config="version_policy { specific { versions: [7] } }"
    )
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument) as caught:
            await world.load("m")
        assert caught.value.text == (
            "load failed for model 'm': at least one version must be available under the version "
            "policy of model 'm'\n"
        )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "Model name cannot be empty"),
        ("  ", "Model name cannot be empty"),
        ("../etc", "must not contain path traversal characters"),
        ("a/../b", "must not contain path traversal characters"),
        ("model/", "must not contain path traversal characters"),
        (" ..", "must not contain path traversal characters"),
        ("...", "failed to load '...', failed to poll"),
        ("model..1", "failed to load 'model..1', failed to poll"),
        ("unknown", "failed to load 'unknown', failed to poll from model repository"),
    ],
)
async def test_names_are_checked_before_anything_else(tmp_path, name, problem):
    async with core_world(tmp_path) as world:
        with pytest.raises(RuntimeFault) as caught:
            await world.load(name)
        assert problem in caught.value.text
        await world.unload(name)


@pytest.mark.parametrize("mode", [ModelControlMode.NONE, ModelControlMode.POLL])
async def test_only_explicit_mode_takes_loads(tmp_path, mode):
    async with core_world(tmp_path, mode=mode) as world:
        for call in (world.load("m"), world.unload("m")):
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.text == (
                "explicit model load / unload is not allowed if polling is enabled"
            )


async def test_requests_in_flight_survive_reload_and_unload(tmp_path):
    write_model(tmp_path, "s", slow())
    async with core_world(tmp_path) as world:
        await world.load("s")
        inputs = {"ITERATIONS": np.array([300], np.int64)}
        head, data = head_of("s", inputs), data_of(inputs)
        waiting = [world.submit(head, data)[1] for _ in range(4)]
        await asyncio.sleep(0)
        write_model(tmp_path, "s", slow(128))
        await world.load("s")
        waiting += [world.submit(head, data)[1] for _ in range(4)]
        await asyncio.sleep(0)
        await world.unload("s")
        assert world.states("s")["1"][0] == "UNLOADING"
        assert not world.core.ready()
        answers = await asyncio.gather(*waiting)
        assert not [answer for answer in answers if isinstance(answer, RuntimeFault)]
        await eventually(lambda: world.states("s")["1"] == ("UNAVAILABLE", "unloaded"))


async def test_a_steady_stream_sees_only_the_old_or_the_new_version(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
        seen: list[float] = []
        done = asyncio.Event()

        async def stream():
            while not done.is_set():
                seen.append(await answer_of(world))

        streams = [asyncio.create_task(stream()) for _ in range(4)]
        for constant in (2, 3, 4):
            write_model(tmp_path, "m", add_constant(constant))
            await world.load("m")
        await eventually(lambda: seen[-1] == 4)
        done.set()
        await asyncio.gather(*streams)
        assert sorted(set(seen)) == [1, 2, 3, 4]


async def test_loads_of_one_model_queue_up_and_all_are_answered(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    write_model(tmp_path, "n", add_constant(2))
    async with core_world(tmp_path) as world:
        calls = [
            (world.load if turn % 2 == 0 else world.unload)(name)
            for turn in range(20)
            for name in ("m", "n")
        ]
        await asyncio.gather(*calls, world.load("m"), world.load("n"))
        assert await answer_of(world) == 1
        assert await answer_of(world, model="n") == 2


async def test_a_client_that_goes_away_does_not_leave_a_model_half_loaded(tmp_path):
    write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        call = asyncio.create_task(world.load("m"))
        await asyncio.sleep(0)
        call.cancel()
        await eventually(lambda: world.states("m").get("1") == ("READY", ""))
        assert await answer_of(world) == 1


async def test_a_touched_file_counts_as_a_change(tmp_path):
    directory = write_model(tmp_path, "m", add_constant(1))
    async with core_world(tmp_path) as world:
        await world.load("m")
        before = world.registry.serving("m")[1]
        os.utime(directory / "1/model.onnx")
        await world.load("m")
        assert world.registry.serving("m")[1] is not before


async def test_metadata_config_and_statistics_follow_what_serves(tmp_path):
    for version in (1, 2):
        write_model(tmp_path, "m", add_sub(), version=version, config=ALL)
    async with core_world(tmp_path) as world:
        await world.load("m")
        core = world.core
        metadata = core.model_metadata("m", "")
        assert list(metadata.versions) == ["1", "2"]
        assert list(core.model_metadata("m", "2").versions) == ["2"]
        assert list(metadata.inputs[0].shape) == [-1, 16]
        assert metadata.platform == "onnxruntime_onnx"
        assert core.model_config("m", "1").name == "m"
        assert core.model_ready("m", "")
        assert core.model_ready("m", "2")
        assert not core.model_ready("m", "9")
        assert not core.model_ready("x", "")
        one = np.ones((1, 16), np.int32)
        await world.ask("m", "2", INPUT0=one, INPUT1=one)
        counts = [entry.inference_count for entry in core.model_statistics("", "").model_stats]
        assert counts == [0, 1]
        with pytest.raises(InvalidArgument, match="requested model 'x' is not available"):
            core.model_statistics("x", "")
        with pytest.raises(InvalidArgument, match="requested model version is not available for"):
            core.model_statistics("m", "7")
        assert core.server_metadata()["extensions"][-2:] == [
            "switchyard_traffic",
            "switchyard_statistics",
        ]


async def test_an_exit_refuses_the_new_and_finishes_the_old(tmp_path):
    write_model(tmp_path, "s", slow())
    async with core_world(tmp_path) as world:
        await world.load("s")
        inputs = {"ITERATIONS": np.array([200], np.int64)}
        head, data = head_of("s", inputs), data_of(inputs)
        _, accepted = world.submit(head, data)
        await asyncio.sleep(0)
        world.core.begin_exit()
        _, refused = world.submit(head, data)
        assert isinstance(await refused, Unavailable)
        for question in (world.core.live, world.core.ready):
            with pytest.raises(Unavailable, match="Server exiting"):
                question()
        with pytest.raises(Unavailable):
            await world.load("s")
        assert world.core.inflight() == {("s", 1): 1}
        await world.lifecycle.shut_down()
        assert not isinstance(await accepted, RuntimeFault)
        assert world.core.inflight() == {}


async def test_what_a_load_took_is_told_of_ensembles_too(tmp_path):
    write_adders(tmp_path)
    write_ensemble(tmp_path, "chain", CHAIN)
    async with core_world(tmp_path) as world:
        for name in ("plus1", "plus10", "chain"):
            await world.load(name)
        text = world.core.metrics_text().decode()
        for name in ("plus1", "chain"):
            line = f'nv_model_load_duration_secs{{model="{name}",version="1"}} '
            assert float(text.partition(line)[2].split()[0]) > 0
