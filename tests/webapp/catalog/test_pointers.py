"""Stages and aliases: one row each, switched with an eye on what the caller believed."""

import pytest

from tests.world import World, assert_problem
from webapp.audit.models import AuditEvent
from webapp.catalog.models import InferenceModel, ModelVersion, Promotion, StagePointer

pytestmark = pytest.mark.django_db


@pytest.fixture
def model(world: World) -> InferenceModel:
    model = InferenceModel.objects.create(name="resnet50", last_version=3)
    for number, state in ((1, "READY"), (2, "READY"), (3, "REJECTED")):
        ModelVersion.objects.create(model=model, number=number, state=state)
    return model


def test_a_stage_moves_only_from_where_the_caller_thinks_it_is(
    world: World, model: InferenceModel
) -> None:
    api = world.api_client()
    url = "/api/v1/models/resnet50/stages/staging:set"
    first = api.post(url, {"version": 1, "expected_version": None, "reason": "first"})
    assert first.status_code == 200
    assert first.json()["from_version"] is None

    late = api.post(url, {"version": 2, "expected_version": None})
    problem = assert_problem(late, 412, "STAGE_MOVED")
    assert problem["current_version"] == 1
    assert problem["changed_by"] == "olga"

    assert api.post(url, {"version": 2, "expected_version": 1}).status_code == 200
    assert StagePointer.objects.get().version.number == 2
    log = api.get("/api/v1/models/resnet50/promotions").json()["items"]
    assert [(row["from_version"], row["to_version"]) for row in log] == [(1, 2), (None, 1)]
    stages = api.get("/api/v1/models/resnet50/stages").json()["items"]
    assert {row["stage"]: row["version"] for row in stages} == {"staging": 2, "production": None}
    assert AuditEvent.objects.filter(action="stage.switch").count() == 2


@pytest.mark.parametrize(
    ("stage", "version", "status", "reason"),
    [
        ("production", 3, 409, "VERSION_NOT_READY"),
        ("production", 9, 404, "VERSION_NOT_FOUND"),
        ("prod", 1, 400, "NO_SUCH_STAGE"),
    ],
)
def test_a_stage_points_at_ready_versions_only(
    world: World, model: InferenceModel, stage: str, version: int, status: int, reason: str
) -> None:
    url = f"/api/v1/models/resnet50/stages/{stage}:set"
    assert_problem(world.api_client().post(url, {"version": version}), status, reason)
    assert not Promotion.objects.exists()


def test_moving_an_alias_needs_its_etag(world: World, model: InferenceModel) -> None:
    api = world.api_client()
    url = "/api/v1/models/resnet50/aliases/champion"
    made = api.put(url, {"version": 1})
    assert made.status_code == 201
    assert_problem(api.put(url, {"version": 2}), 428, "IF_MATCH_REQUIRED")
    stale = api.put(url, {"version": 2}, headers={"If-Match": '"old"'})
    assert_problem(stale, 412, "ETAG_MISMATCH")
    moved = api.put(url, {"version": 2}, headers={"If-Match": made["ETag"]})
    assert moved.json()["version"] == 2
    assert api.get("/api/v1/models/resnet50").json()["aliases"] == {"champion": 2}

    gone = api.delete(url, headers={"If-Match": moved["ETag"]})
    assert gone.status_code == 204
    assert_problem(api.get(url), 404, "ALIAS_NOT_FOUND")


@pytest.mark.parametrize("name", ["production", "7", "a--b", "-x", "a" * 61])
def test_an_alias_cannot_read_as_something_else(
    world: World, model: InferenceModel, name: str
) -> None:
    url = f"/api/v1/models/resnet50/aliases/{name}"
    assert_problem(world.api_client().put(url, {"version": 1}), 400, "BAD_NAME")


def test_a_viewer_reads_and_moves_nothing(world: World, model: InferenceModel) -> None:
    viewer = world.api_client("viewer")
    assert viewer.get("/api/v1/models/resnet50/stages").status_code == 200
    moved = viewer.post("/api/v1/models/resnet50/stages/staging:set", {"version": 1})
    assert_problem(moved, 403, "ROLE_REQUIRED")
    assert_problem(
        viewer.put("/api/v1/models/resnet50/aliases/x", {"version": 1}), 403, "ROLE_REQUIRED"
    )
