"""Idempotency-Key on every POST that makes something: run once, answered alike, never for another body."""

import io
from functools import partial
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.publishing import named_file
from tests.webapp.api.described import Description
from tests.webapp.api.paths import snapshot
from tests.webapp.at_once import at_once
from tests.webapp.rollouts.yard import Yard
from tests.world import World, assert_problem

KEY = {"Idempotency-Key": "once"}
Body = dict[str, Any]
# Path below /api/v1/, the body, and another body.
MAKING: dict[str, tuple[str, Body, Body]] = {
    "createModel": ("models", {"name": "new"}, {"name": "newer"}),
    "startUpload": (
        "uploads",
        {"model": "new", "size_bytes": 9},
        {"model": "new", "size_bytes": 10},
    ),
    "startRollout": ("models/resnet50/rollouts", {"version": 2}, {"version": 2, "min_requests": 7}),
    "createBenchmark": (
        "benchmarks",
        {"model": "resnet50", "version": 1},
        {"model": "resnet50", "version": 2},
    ),
    "deployVersion": (
        "models/resnet50/versions/3:deploy",
        {"runtime": "edge-1"},
        {"runtime": "edge-1", "allow_unsplit": True},
    ),
    "undeployVersion": (
        "models/resnet50/versions/2:undeploy",
        {"runtime": "edge-1"},
        {"runtime": "edge-1", "out_of_service": True},
    ),
    "validateVersion": ("models/resnet50/versions/1:validate", {}, {}),
    "setStage": ("models/resnet50/stages/staging:set", {"version": 1}, {"version": 2}),
    "addRuntime": (
        "runtimes",
        {"name": "far", "http_address": "127.0.0.1:9", "grpc_address": "127.0.0.1:9", "save_anyway": True},
        {"name": "far", "http_address": "127.0.0.1:9", "grpc_address": "127.0.0.1:9"},
    ),
    "reconcileRuntime": ("runtimes/edge-1:reconcile", {}, {}),
}  # fmt: skip
SECRET: dict[str, tuple[str, Body]] = {
    "createToken": ("tokens", {"name": "nightly"}),
    "createPerson": ("people", {"username": "pat"}),
    "resetPassword": ("people/vic:reset_password", {}),
}
# They make nothing, or making it again is the same: a repeat is answered by the state of the thing.
ACTIONS = {
    "archiveVersion", "restoreVersion", "probeRuntime", "cancelOperation", "cancelBenchmark",
    "revokeToken", "completeUpload", "pauseRollout", "resumeRollout", "advanceRollout",
    "promoteRollout", "abortRollout",
}  # fmt: skip
UPLOADED = {"uploadVersion"}  # its body is a form: tested by itself


def _post(client: APIClient, path: str, body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, headers=KEY)


def test_the_tables_miss_no_call(description: Description) -> None:
    posts = {
        each.name.removesuffix("OfModel")
        for each in description.operations
        if each.method == "POST"
    }
    assert posts == MAKING.keys() | SECRET.keys() | ACTIONS | UPLOADED


@pytest.mark.parametrize("name", MAKING)
def test_a_repeat_gets_the_first_answer_and_makes_nothing(station: Yard, name: str) -> None:
    station.version(3)
    client, (path, body, other) = station.world.api_client("admin"), MAKING[name]
    first = _post(client, path, body)
    assert first.status_code < 300, first.content
    made = snapshot()
    again = _post(client, path, body)
    assert again["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    for header in ("Location", "ETag", "Operation-Location"):
        assert again.get(header) == first.get(header)
    if other != body:
        assert_problem(_post(client, path, other), 422, "IDEMPOTENCY_KEY_REUSED")
    assert snapshot() == made


@pytest.mark.parametrize("name", SECRET)
def test_an_answer_with_a_secret_is_not_kept_and_the_call_not_run_again(
    station: Yard, name: str
) -> None:
    client, (path, body) = station.world.api_client("admin"), SECRET[name]
    assert _post(client, path, body).status_code < 300
    made = snapshot()
    problem = assert_problem(_post(client, path, body), 409, "IDEMPOTENT_ANSWER_NOT_KEPT")
    assert problem["help"]
    assert snapshot() == made


@pytest.mark.parametrize("name", MAKING)
def test_two_at_once_run_once(station: Yard, name: str) -> None:
    station.version(3)
    path, body, _ = MAKING[name]
    clients = [station.world.api_client("admin") for _ in range(4)]
    answers = at_once([partial(_post, client, path, body) for client in clients])
    made = [each for each in answers if each.status_code < 300]
    assert made
    assert sum("Idempotency-Replayed" not in each for each in made) == 1
    assert len({each.content for each in made}) == 1
    for late in answers:
        if late not in made:
            assert_problem(late, 409, "IDEMPOTENT_CALL_RUNNING")
    before = snapshot()
    last = _post(station.world.api_client("admin"), path, body)
    assert last.content == made[0].content
    assert snapshot() == before


def test_a_form_counts_with_its_files(station: Yard) -> None:
    client = station.world.api_client()
    client.post("/api/v1/models", {"name": "new"})

    def send(content: bytes) -> Any:
        form: dict[str, io.BytesIO] = {"file": named_file("m.onnx", content)}
        path = "/api/v1/models/new/versions"
        return client.post(path, form, format="multipart", headers=KEY)

    first = send(b"one")
    assert first.status_code == 202
    assert send(b"one").json() == first.json()
    assert_problem(send(b"two"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert station.world.api_client().get("/api/v1/models/new").json()["latest_version"] == 1


@pytest.mark.parametrize("key", ["", " ", "x" * 201])
def test_a_key_is_a_short_text(world: World, key: str) -> None:
    answer = world.api_client().post(
        "/api/v1/models", {"name": "new"}, headers={"Idempotency-Key": key}
    )
    assert_problem(answer, 400, "BAD_IDEMPOTENCY_KEY")
