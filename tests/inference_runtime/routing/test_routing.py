"""Which version answers a request, and how a table splits what names none."""

import asyncio
import os
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inference_runtime.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
)
from inference_runtime.shared_memory.regions import RegionOptions
from inference_runtime.spec.messages import InferRequest
from inference_runtime.spec.region_span import RegionPlan, RegionSpan
from inference_runtime.spec.traffic import bucket_of
from tests.inference_runtime.core_world import core_world, data_of, eventually, head_of
from tests.inference_runtime.shared_memory.objects import shm_object
from tests.onnx_models import add_sub, failing, write_model, write_versions

ZERO: dict[str, Any] = {"INPUT0": np.zeros((1, 4), np.float32)}
HEAD, DATA = head_of("m", ZERO), data_of(ZERO)


def table(generation=1, *, canary=0.1, **more):
    arms = [
        {"model": "m", "version": 1, "role": "stable", "weight": round(1 - canary, 4)},
        {"model": "m", "version": 2, "role": "canary", "weight": canary},
    ]
    return {"model": "m", "generation": generation, "salt": "salt", "arms": arms, **more}


async def routed(world, count=1, head=HEAD, **more):
    """(arm, version, generation) of requests that were all answered."""
    pairs = [world.submit(head, DATA, **more) for _ in range(count)]
    answers = await asyncio.gather(*(future for _, future in pairs))
    assert not [answer for answer in answers if isinstance(answer, RuntimeFault)]
    return [(r.arm, r.version.number, r.generation) for r, _ in pairs]


async def test_without_a_table_the_highest_version_answers(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        assert await routed(world) == [("default", 2, 0)]
        assert await routed(world, head=head_of("m", ZERO, "1")) == [("", 1, 0)]


async def test_shares_are_those_of_the_table(tmp_path):
    write_versions(tmp_path, 1, 2, 3, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        applied = await world.core.traffic_put("m", table(3, canary=0.1))
        assert applied["generation"] == 3
        counts = Counter(await routed(world, 4000))
        assert set(counts) == {("stable", 1, 3), ("canary", 2, 3)}
        assert 300 < counts["canary", 2, 3] < 500
        await world.core.traffic_put("m", table(4, canary=0.0))
        assert set(await routed(world, 500)) == {("stable", 1, 4)}
        await world.core.traffic_put("m", table(5, canary=1.0))
        assert set(await routed(world, 500)) == {("canary", 2, 5)}
        assert await routed(world, head=head_of("m", ZERO, "3")) == [("", 3, 0)]
        await world.core.traffic_delete("m")
        assert await routed(world) == [("default", 3, 0)]


async def test_a_unit_stays_on_its_arm(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        assert not world.core.unit_header("m")
        await world.core.traffic_put("m", table(canary=0.3, unit_header="X-User"))
        assert world.core.unit_header("m") == "x-user"
        assert not world.core.unit_header("unknown")
        for number in range(200):
            unit = f"user-{number}"
            arms = {arm for arm, _, _ in await routed(world, 3, traffic_unit=unit)}
            expected = "canary" if bucket_of("salt", unit) < 3000 else "stable"
            assert arms == {expected}


async def test_an_arm_that_is_not_ready_falls_to_one_that_is(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    write_versions(tmp_path, 1, name="other")
    async with core_world(tmp_path) as world:
        await world.load("m")
        await world.load("other")
        await world.core.traffic_put("m", table(canary=0.5))
        (tmp_path / "m/config.pbtxt").write_text("version_policy { specific { versions: [1] } }")
        await world.load("m")
        assert set(await routed(world, 50)) == {("stable", 1, 1)}
        assert world.core.traffic_table("m")["fallbacks"] > 0
        await world.unload("m")
        with pytest.raises(Unavailable, match="no version in the traffic table of model 'm' is"):
            await world.ask("m", **ZERO)
        await world.load("m", config='{"version_policy": {"all": {}}}')
        assert len(set(await routed(world, 100))) == 2


async def test_an_arm_may_be_another_repository_model(tmp_path):
    write_versions(tmp_path, 1, name="m")
    write_versions(tmp_path, 7, name="m--fast")
    async with core_world(tmp_path) as world:
        await world.load("m")
        await world.load("m--fast")
        arms = [{"model": "m--fast", "version": 7, "role": "canary", "weight": 1.0}]
        await world.core.traffic_put("m", {"generation": 1, "salt": "", "arms": arms})
        assert float((await world.ask("m", **ZERO))["OUTPUT0"][0, 0]) == 7


async def test_generations_only_go_up(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        core = world.core
        await core.traffic_put("m", table(5))
        assert (await core.traffic_put("m", table(5)))["generation"] == 5
        for late in (table(4), table(5, canary=0.2)):
            with pytest.raises(Conflict):
                await core.traffic_put("m", late)
        with pytest.raises(Conflict):
            await core.traffic_delete("m", 4)
        assert core.traffic_table("m")["arms"][1]["weight"] == 0.1
        await core.traffic_delete("m", 6)
        await core.traffic_delete("m", 6)
        with pytest.raises(NotFound):
            core.traffic_table("m")
        with pytest.raises(Conflict, match="was deleted at generation 6"):
            await core.traffic_put("m", table(6))
        await core.traffic_put("m", table(7))
        assert [found["generation"] for found in core.traffic_tables()] == [7]


async def test_a_version_gets_no_traffic_before_it_is_ready(tmp_path):
    write_versions(tmp_path, 1, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        with pytest.raises(InvalidArgument, match="version 2 of model 'm' is not ready"):
            await world.core.traffic_put("m", table())
        await world.core.traffic_put("m", table(canary=0.0))
        with pytest.raises(InvalidArgument, match="must sum to 1"):
            await world.core.traffic_put("m", {**table(2), "arms": table()["arms"][:1]})


async def test_tables_outlive_the_process(tmp_path):
    repository, state = tmp_path / "repository", tmp_path / "state"
    write_versions(repository, 1, 2, name="m")
    async with core_world(repository, state=state) as world:
        await world.load("m")
        await world.core.traffic_put("m", table(9, canary=0.25, unit_header="x-user"))
    async with core_world(repository, state=state) as world:
        restored = world.core.traffic_table("m")
        assert restored["generation"] == 9
        assert restored["arms"][1]["weight"] == 0.25
        assert world.core.unit_header("m") == "x-user"
        assert await routed(world, 1, traffic_unit="u")
        await world.core.traffic_delete("m", 10)
    async with core_world(repository, state=state) as world:
        assert world.core.traffic_tables() == []
        with pytest.raises(Conflict):
            await world.core.traffic_put("m", table(10))


async def test_every_answer_during_a_change_is_from_a_version_that_was_configured(tmp_path):
    write_versions(tmp_path, 1, 2, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        await world.core.traffic_put("m", table(1, canary=0.0))
        seen = []
        done = asyncio.Event()

        async def stream():
            while not done.is_set():
                seen.extend(await routed(world))

        streams = [asyncio.create_task(stream()) for _ in range(4)]
        for generation, share in ((2, 0.1), (3, 0.5), (4, 1.0), (5, 0.0)):
            await world.core.traffic_put("m", table(generation, canary=share))
            await eventually(lambda wanted=generation: seen and seen[-1][2] == wanted)
        done.set()
        await asyncio.gather(*streams)
        assert {arm for arm, _, generation in seen if generation in (1, 5)} == {"stable"}
        assert {arm for arm, _, generation in seen if generation == 4} == {"canary"}


async def test_refusals_are_counted_once_with_a_reason(tmp_path):
    write_model(tmp_path, "m", add_sub())
    write_model(tmp_path, "f", failing())
    async with core_world(tmp_path) as world:
        await world.load("m")
        await world.load("f")
        with pytest.raises(InvalidArgument):
            await world.ask(
                "m", INPUT0=np.zeros((1, 8), np.int32), INPUT1=np.zeros((1, 8), np.int32)
            )
        with pytest.raises(RuntimeFault, match="onnx runtime error 2"):
            await world.ask("f", INDEX=np.array([[77]], np.int64))
        with pytest.raises(NotFound):
            await world.ask("unknown", INPUT0=np.zeros((1, 8), np.int32))
        models = {entry["model"]: entry for entry in world.core.switchyard_statistics()["models"]}
        (default,) = models["m"]["arms"]
        assert (default["arm"], default["client_faults"], default["requests"]) == ("default", 1, 1)
        (default,) = models["f"]["arms"]
        assert (default["failures"], default["requests"]) == (1, 1)
        assert models["m"]["state"] == "READY"
        text = world.core.metrics_text().decode()
        assert "nv_inference_request_success" in text
        assert 'runtime_unrouted_requests_total{outcome="client_fault"} 1' in text


async def test_requests_refused_for_their_shared_memory_are_counted_once(tmp_path):
    write_versions(tmp_path, 1, name="m")
    answers: list[Any] = []

    def unrouted(world) -> str:
        text = world.core.metrics_text().decode()
        return re.search(r'unrouted_requests_total{outcome="client_fault"} (\d+)', text)[1]

    async with core_world(tmp_path) as world:
        regions, local = world.core.regions, {"local": True}
        regions.options = RegionOptions(enabled=True)
        plan = RegionPlan({0: RegionSpan("r", 0, 16)})
        with pytest.raises(NotFound):
            world.core.region_use(plan, lambda *_: None, **local)
        assert unrouted(world) == "1"
        with shm_object(bytes(4096)) as path:
            regions.register_system("r", path.name, 0, 4096)
            os.truncate(path, 0)
            use = world.core.region_use(plan, lambda _, answer: answers.append(answer), **local)
            use.start(InferRequest(HEAD, [b""], use.done, None, 0), world.core.infer)
            regions.close()
        assert isinstance(answers[0], InvalidArgument)
        assert unrouted(world) == "2"


async def test_a_waiting_request_can_be_cancelled_and_an_unrouted_one_too(tmp_path):
    write_versions(tmp_path, 1, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        request, future = world.submit(HEAD, DATA)
        world.core.cancel(request)
        assert isinstance(await future, RuntimeFault)
        request, future = world.submit(head_of("unknown", ZERO), DATA)
        world.core.cancel(request)
        assert isinstance(await future, NotFound)


async def test_heads_are_remembered_within_bounds(tmp_path):
    write_versions(tmp_path, 1, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        plans = world.registry.serving("m")[1].plans
        heavy = replace(HEAD, parameters={"note": "x" * 100_000})
        await world.answer(heavy, DATA)
        await world.answer(replace(HEAD, parameters={"note": "x"}), DATA)
        assert len(plans) == 1
        heads = [head_of("m", ZERO) for _ in range(3000)]
        await asyncio.gather(*(world.submit(head, DATA)[1] for head in heads))
        assert 0 < len(plans) <= 2048


async def test_while_the_server_starts_callers_are_told_to_come_back(tmp_path):
    write_versions(tmp_path, 1, name="m")
    async with core_world(tmp_path, started=False) as world:
        assert world.core.live()
        assert not world.core.ready()
        with pytest.raises(Unavailable, match="Server is starting"):
            await world.ask("m", **ZERO)
        await world.load("m")
        assert await routed(world)
        assert not world.core.ready()
        with pytest.raises(Unavailable, match="Server not ready"):
            world.core.model_ready("m", "")
        world.core.started()
        assert world.core.ready()
        assert world.core.model_ready("m", "")
        with pytest.raises(NotFound):
            await world.ask("unknown", **ZERO)


async def test_data_that_does_not_belong_to_its_head_is_an_answer_and_no_crash(tmp_path):
    write_versions(tmp_path, 1, name="m")
    async with core_world(tmp_path) as world:
        await world.load("m")
        for data in ([], [*DATA, *DATA], [b"short"]):
            assert isinstance(await world.answer(HEAD, data), RuntimeFault)
        assert await routed(world)
