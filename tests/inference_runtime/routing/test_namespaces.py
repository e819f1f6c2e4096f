"""Models of one name in several repositories: who is meant, who is refused, and what ensembles take."""

import shutil

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.lifecycle.start_up import ModelControlMode
from tests.inference_runtime.core_world import core_world, eventually
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_constant, write_model

ZERO = {"INPUT0": np.zeros((1, 4), np.float32)}
IN = {"IN": np.zeros((1, 4), np.float32)}
CALL = step("part", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"})
AMBIGUOUS = (
    "There are 2 identifiers of model 'part' in global map, model namespace must be provided to "
    "resolve ambiguity."
)


@pytest.fixture
def roots(tmp_path):
    roots = [tmp_path / "one", tmp_path / "two"]
    for constant, root in enumerate(roots, 1):
        write_model(root, "part", add_constant(constant))
        write_ensemble(root, f"whole{constant}", CALL)
    write_model(roots[0], "alone", add_constant(7))
    return roots


@pytest.fixture
async def world(tmp_path, roots):
    async with core_world(
        tmp_path, roots=roots, mode=ModelControlMode.POLL, namespacing=True
    ) as world:
        await world.poller().poll()
        yield world


async def value(world, model, inputs, output) -> float:
    return float((await world.ask(model, **inputs))[output][0, 0])


async def test_a_name_that_means_one_model_needs_no_namespace(world):
    assert await value(world, "alone", ZERO, "OUTPUT0") == 7
    with pytest.raises(InvalidArgument, match="Request for unknown model: 'none' is not found"):
        await value(world, "none", ZERO, "OUTPUT0")


async def test_an_ambiguous_name_is_refused_everywhere_until_it_means_one(world, roots):
    calls = (
        lambda: world.core.model_metadata("part", ""),
        lambda: world.core.model_config("part", ""),
        lambda: world.core.model_ready("part", ""),
    )
    for call in calls:
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert caught.value.text == AMBIGUOUS
    for version in ("", "1"):
        with pytest.raises(InvalidArgument) as caught:
            await world.ask("part", version, **ZERO)
        assert caught.value.text == AMBIGUOUS
    shutil.rmtree(roots[1] / "part")
    await world.poller().poll()
    assert await value(world, "part", ZERO, "OUTPUT0") == 1
    assert world.core.model_metadata("part", "").name == "part"


async def test_ensembles_take_the_models_of_their_own_repository(world, roots):
    assert await value(world, "whole1", IN, "OUT") == 1
    assert await value(world, "whole2", IN, "OUT") == 2
    shown = world.core.model_config("whole1", "").ensemble_scheduling.step[0].model_name
    assert shown == "part"


async def test_an_ensemble_takes_a_model_of_another_repository_where_only_one_is_meant(
    tmp_path, roots
):
    third = tmp_path / "three"
    write_ensemble(third, "borrows", step("alone", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}))
    write_ensemble(third, "unsure", CALL)
    async with core_world(
        tmp_path, roots=[*roots, third], mode=ModelControlMode.POLL, namespacing=True
    ) as world:
        await world.poller().poll()
        assert await value(world, "borrows", IN, "OUT") == 7
        reason = world.registry.record("unsure").versions[1].reason
        assert "contains models that are not available or ambiguous: part" in reason


async def test_index_metrics_and_statistics_tell_them_apart(world, roots):
    index = await world.core.repository_index(True)
    assert [entry.name for entry in index] == ["alone", "part", "part", "whole1", "whole2"]
    await value(world, "whole2", IN, "OUT")
    text = world.core.metrics_text().decode()
    for root, count in zip(roots, (0, 1), strict=True):
        labels = f'model="part",namespace="{root}",version="1"'
        assert f"nv_inference_request_success{{{labels}}} {count}\n" in text
    names = [stats.name for stats in world.core.model_statistics("", "").model_stats]
    assert names.count("part") == 2
    assert f"{roots[0]}" not in " ".join(names)


async def test_a_load_by_the_bare_name_is_about_all_of_them(tmp_path, roots):
    async with core_world(tmp_path, roots=roots, namespacing=True) as world:
        await world.load("part")
        assert await value(world, f"{roots[0]}/part", ZERO, "OUTPUT0") == 1
        assert await value(world, f"{roots[1]}/part", ZERO, "OUTPUT0") == 2
        with pytest.raises(InvalidArgument, match="namespace must be provided"):
            await world.load("part", config="{}")
        await world.unload("part")
        await eventually(lambda: world.states("part") == {"1": ("UNAVAILABLE", "unloaded")})
        assert not world.registry.serving(f"{roots[0]}/part")


async def test_without_namespaces_a_model_in_two_repositories_is_an_error_of_that_model(
    tmp_path, roots
):
    async with core_world(tmp_path, roots=roots, mode=ModelControlMode.POLL) as world:
        await world.poller().poll()
        assert await value(world, "alone", ZERO, "OUTPUT0") == 7
        assert world.states("part") == {
            "": ("UNAVAILABLE", "model appears in two or more repositories")
        }
        assert not world.registry.serving("whole1")
