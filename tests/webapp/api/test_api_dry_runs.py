"""`?validate_only=true` on every call that writes: a dry run that changes nothing, or a refusal."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.publishing import named_file
from tests.webapp.api.described import Description, Operation
from tests.webapp.api.paths import filled, snapshot
from tests.webapp.rollouts.yard import Yard
from tests.world import assert_problem
from webapp.catalog.models import Alias, InferenceModel, ModelVersion
from webapp.core.models import IdempotencyRecord
from webapp.serving.models import Deployment

DRY = "?validate_only=true"
STEPS = [{"weight": 0.25, "hold_seconds": 500}]


def _writing(description: Description) -> list[Operation]:
    return [each for each in description.operations if each.method != "GET"]


def test_a_call_without_a_dry_run_refuses_one_before_anything_else(
    station: Yard, description: Description
) -> None:
    refusing = [
        each for each in _writing(description) if "validate_only" not in each.parameters("query")
    ]
    before = snapshot()
    for operation in refusing:
        call = getattr(station.world.api_client("admin"), operation.method.lower())
        answer = call(f"{filled(operation.path)}{DRY}", {}, headers={"Idempotency-Key": "k"})
        assert_problem(answer, 400, "NO_DRY_RUN")
    assert {"uploadVersion", "createPerson", "addRuntime"} <= {each.name for each in refusing}
    assert snapshot() == before


def _begun(station: Yard) -> dict[str, str]:
    answer = station.world.api_client("operator").post(
        "/api/v1/models/resnet50/rollouts", {"version": 2, "steps": STEPS}
    )
    station.pass_seconds(3)
    return {"rollout_id": answer.json()["id"]}


def _paused(station: Yard) -> dict[str, str]:
    names = _begun(station)
    path = f"/api/v1/rollouts/{names['rollout_id']}:pause"
    assert station.world.api_client("operator").post(path, {}).status_code == 200
    return names


def _archived(station: Yard) -> dict[str, str]:
    station.version(3, state="ARCHIVED")
    return {"number": "3"}


def _unused(station: Yard) -> dict[str, str]:
    station.version(3)
    return {"number": "3"}


def _alias(station: Yard) -> dict[str, str]:
    version = ModelVersion.objects.get(model=station.model, number=2)
    Alias.objects.create(model=station.model, name="champion", version=version)
    return {"alias": "champion"}


def _spare_model(station: Yard) -> dict[str, str]:
    InferenceModel.objects.create(name="spare")
    return {"name": "spare"}


def _nothing(station: Yard) -> dict[str, str]:
    return {}


# What the call needs to be there, and its body.
CASES: dict[str, tuple[Callable[[Yard], dict[str, str]], Any]] = {
    "createModel": (_nothing, {"name": "new"}),
    "changeModel": (_nothing, {"description": "x"}),
    "deleteModel": (_spare_model, None),
    "setAlias": (_alias, {"version": 1}),
    "deleteAlias": (_alias, None),
    "setStage": (_nothing, {"version": 1}),
    "changeVersion": (_nothing, {"note": "x"}),
    "archiveVersion": (_unused, {}),
    "restoreVersion": (_archived, {}),
    "validateVersion": (_nothing, {}),
    "deployVersion": (_unused, {"runtime": "edge-1"}),
    "undeployVersion": (_nothing, {"runtime": "edge-1"}),
    "setServingConfig": (_nothing, {"max_batch_size": 4}),
    "startUpload": (_nothing, {"model": "new", "filename": "m.onnx", "size_bytes": 10}),
    "createBenchmark": (_nothing, {"model": "resnet50", "version": 1}),
    "startRollout": (_nothing, {"version": 2}),
    "resumeRollout": (_paused, {}),
    **{f"{move}Rollout": (_begun, {}) for move in ("pause", "advance", "promote", "abort")},
}


def test_the_table_misses_no_call(description: Description) -> None:
    with_one = {
        each.name.removesuffix("OfModel")
        for each in _writing(description)
        if "validate_only" in each.parameters("query")
    }
    assert with_one == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_dry_run_changes_nothing(station: Yard, description: Description, name: str) -> None:
    (operation,) = [each for each in description.operations if each.name == name]
    prepare, body = CASES[name]
    path = filled(operation.path, **prepare(station))
    client = station.world.api_client("operator")
    headers = {"Idempotency-Key": "k"} if operation.method == "POST" else {}
    if "428" in operation.what["responses"]:
        headers["If-Match"] = client.get(path)["ETag"]
    before, columns = snapshot(), _columns()
    answer = getattr(client, operation.method.lower())(f"{path}{DRY}", body, headers=headers)
    assert answer.status_code == 200, answer.content
    assert answer.json()
    assert (snapshot(), _columns()) == (before, columns)
    assert not IdempotencyRecord.objects.exists()
    real = getattr(client, operation.method.lower())(path, body, headers=headers)
    assert real.status_code < 300, "the same call, meant: the dry run did not promise too much"


def _columns() -> list[Any]:
    """What is stored of the things these calls change."""
    tables = (InferenceModel, ModelVersion, Alias, Deployment)
    return [list(table.objects.order_by("pk").values()) for table in tables]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("models", {"name": "resnet50"}, 409, "MODEL_EXISTS"),
        ("models", {"name": "../x"}, 400, "BAD_NAME"),
        (
            "benchmarks",
            {"model": "resnet50", "version": 1, "protocol": "smtp"},
            400,
            "BAD_PROTOCOL",
        ),
        ("benchmarks", {"model": "resnet50", "version": 1, "inputs": []}, 400, "BAD_INPUTS"),
        ("benchmarks", {"model": "resnet50", "version": 9}, 404, "VERSION_NOT_FOUND"),
        (
            "benchmarks",
            {"model": "resnet50", "version": 1, "runtime": "x"},
            404,
            "RUNTIME_NOT_FOUND",
        ),
        ("uploads", {"model": "../x", "size_bytes": 1}, 400, "BAD_NAME"),
        ("uploads", {"model": "x", "size_bytes": 1, "sha256": "abc"}, 400, "BAD_DIGEST"),
        ("uploads", {"model": "x", "size_bytes": 0}, 400, "EMPTY_FILE"),
        ("models/resnet50/rollouts", {"version": 1}, 409, "SAME_VERSION"),
        ("models/resnet50/versions/1:archive", {}, 409, "VERSION_IN_USE"),
        ("models/resnet50/stages/gold:set", {"version": 1}, 400, "NO_SUCH_STAGE"),
    ],
)
def test_a_dry_run_refuses_what_the_real_call_would(
    station: Yard, path: str, body: Any, status: int, reason: str
) -> None:
    client = station.world.api_client("operator")
    for query in (DRY, ""):
        problem = client.post(f"/api/v1/{path}{query}", body).json()
        assert (problem["status"], problem["reason"]) == (status, reason), (query, problem)


def test_a_one_shot_upload_refuses_a_dry_run_and_stores_nothing(station: Yard) -> None:
    form = {"file": named_file("m.onnx", b"bytes")}
    path = f"/api/v1/models/resnet50/versions{DRY}"
    before = snapshot()
    answer = station.world.api_client().post(path, form, format="multipart")
    assert_problem(answer, 400, "NO_DRY_RUN")
    assert snapshot() == before


def test_a_dry_run_needs_what_the_real_call_needs(station: Yard) -> None:
    client = station.world.api_client()
    for path, body in (
        ("models/resnet50", {"description": "x"}),
        ("models/resnet50/serving-config", {"max_batch_size": 4}),
    ):
        call = client.patch if path == "models/resnet50" else client.put
        assert_problem(call(f"/api/v1/{path}{DRY}", body), 428, "IF_MATCH_REQUIRED")
        stale = call(f"/api/v1/{path}{DRY}", body, headers={"If-Match": '"old"'})
        assert_problem(stale, 412, "ETAG_MISMATCH")
