"""Models and what may happen to them and their versions."""

import pytest

from tests import onnx_models
from tests.publishing import Publishing, onnx_bytes
from tests.world import World, assert_problem
from webapp.audit.models import AuditEvent
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.serving.models import Deployment, Runtime

MODEL = onnx_bytes(onnx_models.mlp())


@pytest.mark.django_db
def test_models_are_registered_listed_filtered_and_described(world: World) -> None:
    api = world.api_client()
    for name in ("resnet50", "resnet101", "bert"):
        assert api.post("/api/v1/models", {"name": name}).status_code == 201
    listed = api.get("/api/v1/models?page_size=2").json()
    assert [row["name"] for row in listed["items"]] == ["bert", "resnet101"]
    rest = api.get(f"/api/v1/models?page_size=2&page_token={listed['next_page_token']}").json()
    assert [row["name"] for row in rest["items"]] == ["resnet50"]
    found = api.get("/api/v1/models?search=res").json()["items"]
    assert [row["name"] for row in found] == ["resnet101", "resnet50"]

    read = api.get("/api/v1/models/bert")
    patched = api.patch(
        "/api/v1/models/bert", {"description": "Sentences"}, headers={"If-Match": read["ETag"]}
    )
    assert patched.json()["description"] == "Sentences"
    assert_problem(api.patch("/api/v1/models/bert", {}), 428, "IF_MATCH_REQUIRED")
    renamed = api.patch(
        "/api/v1/models/bert", {"name": "bart"}, headers={"If-Match": patched["ETag"]}
    )
    assert_problem(renamed, 400, "VALIDATION_FAILED")
    change = AuditEvent.objects.get(action="model.update")
    assert (change.before, change.after) == ({"description": ""}, {"description": "Sentences"})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", ".hidden", "a--b", "x" * 101, "ünï", "a b", "x\n", None, 7]
)
def test_names_that_cannot_be_directories_are_refused(world: World, name: object) -> None:
    response = world.api_client().post("/api/v1/models", {"name": name})
    assert response.status_code == 400
    assert response.json()["reason"] in ("BAD_NAME", "VALIDATION_FAILED")


@pytest.mark.django_db
def test_a_second_model_of_the_same_name_is_refused(world: World) -> None:
    api = world.api_client()
    api.post("/api/v1/models", {"name": "bert"})
    assert_problem(api.post("/api/v1/models", {"name": "bert"}), 409, "MODEL_EXISTS")
    assert_problem(api.post("/api/v1/models", {"name": "BERT"}), 409, "MODEL_EXISTS")
    assert_problem(
        world.api_client("viewer").post("/api/v1/models", {"name": "x"}), 403, "ROLE_REQUIRED"
    )
    assert_problem(world.api_client(None).get("/api/v1/models"), 401, "NOT_AUTHENTICATED")


def test_archiving_hides_and_restoring_brings_back(publishing: Publishing) -> None:
    publishing.upload("m", MODEL)
    api = publishing.world.api_client()
    api.post("/api/v1/models/m/stages/staging:set", {"version": 1})
    in_use = api.post("/api/v1/models/m/versions/1:archive")
    assert "staging" in assert_problem(in_use, 409, "VERSION_IN_USE")["detail"]

    publishing.upload("m", MODEL)
    assert api.post("/api/v1/models/m/versions/2:archive").json()["state"] == "ARCHIVED"
    assert api.post("/api/v1/models/m/versions/2:archive").json()["state"] == "ARCHIVED"
    assert api.post("/api/v1/models/m/versions/2:restore").json()["state"] == "READY"
    assert "m/2/model.onnx" in publishing.published()
    actions = AuditEvent.objects.filter(target="models/m/versions/2").values_list(
        "action", flat=True
    )
    assert set(actions) - {"version.check", "version.accept"} == {
        "version.create", "version.archive", "version.restore",
    }  # fmt: skip


def test_a_deployed_model_cannot_be_deleted_or_its_version_archived(publishing: Publishing) -> None:
    version = publishing.upload("m", MODEL)
    runtime = Runtime.objects.create(name="edge-1", http_address="a:1", grpc_address="a:2")
    deployment = Deployment.objects.create(runtime=runtime, version=version)
    api = publishing.world.api_client()
    tag = api.get("/api/v1/models/m")["ETag"]

    refused = api.delete("/api/v1/models/m", headers={"If-Match": tag})
    assert_problem(refused, 409, "MODEL_DEPLOYED")
    archived = api.post("/api/v1/models/m/versions/1:archive")
    assert "edge-1" in assert_problem(archived, 409, "VERSION_IN_USE")["detail"]

    deployment.delete()
    api.post("/api/v1/models/m/stages/staging:set", {"version": 1})
    api.put("/api/v1/models/m/aliases/champion", {"version": 1})
    tag = api.get("/api/v1/models/m")["ETag"]
    assert api.delete("/api/v1/models/m", headers={"If-Match": tag}).status_code == 204
    assert not InferenceModel.objects.exists()
    assert publishing.published() == []
    assert publishing.bytes_kept() == 0


def test_a_version_never_changes_but_its_note(publishing: Publishing) -> None:
    publishing.upload("m", MODEL, note="first try")
    api = publishing.world.api_client()
    read = api.get("/api/v1/models/m/versions/1")
    assert read.json()["note"] == "first try"
    match = {"If-Match": read["ETag"]}
    refused = api.patch("/api/v1/models/m/versions/1", {"state": "READY"}, headers=match)
    assert_problem(refused, 400, "VERSION_IMMUTABLE")
    noted = api.patch("/api/v1/models/m/versions/1", {"note": "keeper"}, headers=match)
    assert noted.json()["note"] == "keeper"


def test_checking_again_notices_files_that_changed(publishing: Publishing) -> None:
    publishing.upload("m", MODEL)
    api = publishing.world.api_client()
    again = api.post("/api/v1/models/m/versions/1:validate")
    assert again.status_code == 202
    version = publishing.check(again.json())
    assert version.state == "READY"
    assert {row["name"]: row["status"] for row in version.checks}["digest"] == "passed"
    assert publishing.published() == ["m/1/model.onnx"]

    file = publishing.home / "repository/m/1/model.onnx"
    file.chmod(0o644)
    file.write_bytes(MODEL + b"\x00")
    version = publishing.check(api.post("/api/v1/models/m/versions/1:validate").json())
    assert version.state == "READY"
    failed = next(row for row in version.checks if row["status"] == "failed")
    assert failed["name"] == "digest"
    assert "model.onnx" in failed["detail"]
    assert version.inspection is not None
    assert version.inspection.error["reason"] == "CHECK_FAILED"


def test_a_rejected_version_cannot_be_checked_again(publishing: Publishing) -> None:
    publishing.upload("m", b"nonsense")
    response = publishing.world.api_client().post("/api/v1/models/m/versions/1:validate")
    assert_problem(response, 409, "VERSION_NOT_PUBLISHED")
    assert ModelVersion.objects.get().state == "REJECTED"


def test_an_unknown_model_or_a_missing_file_is_named(publishing: Publishing) -> None:
    api = publishing.world.api_client()
    lost = api.post("/api/v1/models/nope/versions", {"note": "x"}, format="multipart")
    assert_problem(lost, 404, "MODEL_NOT_FOUND")
    api.post("/api/v1/models", {"name": "m"})
    empty = api.post("/api/v1/models/m/versions", {"note": "x"}, format="multipart")
    assert "curl" in assert_problem(empty, 400, "FILE_MISSING")["help"]


def test_dry_runs_say_what_would_be_and_change_nothing(publishing: Publishing) -> None:
    publishing.upload("m", MODEL)
    api = publishing.world.api_client()
    model, version = "/api/v1/models/m", "/api/v1/models/m/versions/1"
    match = {"If-Match": "*"}
    rows = AuditEvent.objects.count()
    archived = api.post(f"{version}:archive?validate_only=true")
    assert archived.json()["state"] == "ARCHIVED"
    noted = api.patch(f"{version}?validate_only=true", {"note": "keeper"}, headers=match)
    assert noted.json()["note"] == "keeper"
    checked = api.post(f"{version}:validate?validate_only=true")
    assert (checked.status_code, checked.json()["kind"]) == (200, "inspect_version")
    named = api.put(f"{model}/aliases/champion?validate_only=true", {"version": 1})
    assert (named.json()["alias"], named.json()["version"]) == ("champion", 1)
    switched = api.post(f"{model}/stages/staging:set?validate_only=true", {"version": 1})
    assert switched.json()["to_version"] == 1
    nowhere = api.post(f"{model}/stages/nowhere:set?validate_only=true", {"version": 1})
    assert_problem(nowhere, 400, "NO_SUCH_STAGE")
    deleted = api.delete(f"{model}?validate_only=true", headers=match)
    assert deleted.json() == {"name": "m", "versions": [1]}

    body = api.get(version).json()
    assert (body["state"], body["note"]) == ("READY", "")
    assert api.get(f"{model}/aliases").json()["items"] == []
    assert api.get(model).json()["stages"]["staging"] is None
    assert publishing.published() == ["m/1/model.onnx"]
    assert AuditEvent.objects.count() == rows


@pytest.mark.django_db
def test_a_name_that_is_too_long_is_told_the_limit(world: World) -> None:
    api = world.api_client()
    problem = assert_problem(api.post("/api/v1/models", {"name": "m" * 300}), 400, "BAD_NAME")
    assert "300" in problem["detail"]
    assert "100" in problem["detail"]
    assert api.post("/api/v1/models", {"name": "m" * 100}).status_code == 201
