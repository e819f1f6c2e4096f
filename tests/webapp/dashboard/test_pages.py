"""Every gathering page answers every role, empty and filled, and offers only what the role may do."""

import html

import pytest
from django.utils import timezone

from tests.world import World, assert_problem
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.dashboard.selectors import model_row_list, model_rows
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment, Runtime
from webapp.telemetry.models import RuntimeSample

PAGES = ["/", "/models/", "/audit/", "/benchmarks/"]
ROLES = ["viewer", "operator", "admin"]


@pytest.fixture
def served(world: World) -> ModelVersion:
    model = InferenceModel.objects.create(name="resnet50", created_by=world.olga, last_version=1)
    version = ModelVersion.objects.create(
        model=model,
        number=1,
        state=VersionState.READY,
        inputs=[{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        outputs=[{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
        files=[{"name": "model.onnx", "size_bytes": 12, "sha256": "ab" * 32}],
        size_bytes=12,
    )
    runtime = Runtime.objects.create(
        name="edge-1", http_address="127.0.0.1:8000", grpc_address="127.0.0.1:8001"
    )
    Deployment.objects.create(runtime=runtime, version=version, state=DeploymentState.AVAILABLE)
    return version


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", PAGES)
def test_answers_without_any_data_and_says_what_to_do(world: World, role: str, path: str) -> None:
    response = world.client(role).get(path)
    assert response.status_code == 200
    assert b"empty" in response.content


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", [*PAGES, "/models/resnet50/", "/models/resnet50/versions/1/"])
def test_answers_with_a_model_in_service(
    world: World, served: ModelVersion, role: str, path: str
) -> None:
    response = world.client(role).get(path)
    assert response.status_code == 200


@pytest.mark.parametrize("path", [*PAGES, "/models/resnet50/"])
def test_a_stranger_is_asked_to_sign_in(world: World, path: str) -> None:
    response = world.client(None).get(path)
    assert response.status_code == 302
    assert "/login" in response["Location"]


def test_a_viewer_is_offered_no_change(world: World, served: ModelVersion) -> None:
    text = world.client("viewer").get("/models/resnet50/versions/1/").content.decode()
    assert "Undeploy" not in text
    assert "/archive/" not in text
    assert "Try it" in text


@pytest.mark.parametrize("action", ["deploy", "undeploy", "archive", "staging"])
def test_a_viewer_cannot_change_a_version_by_its_address(
    world: World, served: ModelVersion, action: str
) -> None:
    response = world.client("viewer").post(f"/models/resnet50/versions/1/{action}/")
    assert response.status_code == 403


def test_a_model_that_is_not_there_is_a_page_that_says_so(world: World) -> None:
    response = world.client().get("/models/nothing/")
    assert response.status_code == 404
    assert "There is no model" in response.content.decode()


def test_the_list_is_filtered_by_name(world: World, served: ModelVersion) -> None:
    client = world.client()
    assert b"resnet50" in client.get("/models/?q=NET").content
    assert b"No model has that" in client.get("/models/?q=bert").content


def test_names_and_notes_cannot_bring_markup(world: World, served: ModelVersion) -> None:
    served.note = "<script>alert(1)</script>"
    served.save()
    text = world.client().get("/models/resnet50/").content.decode()
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_trying_inputs_that_are_not_json_says_what_is_wrong(
    world: World, served: ModelVersion
) -> None:
    response = world.client().post("/models/resnet50/versions/1/try/", {"inputs": "{"})
    assert response.status_code == 200
    assert "This is not JSON" in response.content.decode()


def test_the_audit_log_is_read_by_the_api_with_filters(world: World) -> None:
    api = world.api_client("viewer")
    body = api.get("/api/v1/audit-events").json()
    assert {row["action"] for row in body["items"]} >= {"token.issue"}
    none = api.get("/api/v1/audit-events?target=models/").json()
    assert none == {"items": [], "next_page_token": ""}
    assert_problem(api.get("/api/v1/audit-events?filter=secret=1"), 400, "UNKNOWN_FIELD")


def test_the_benchmark_call_to_copy_names_a_version_in_service(
    world: World, served: ModelVersion
) -> None:
    page = world.client("operator").get("/benchmarks/").content.decode()
    call = html.unescape(page)
    assert '{"model": "resnet50", "version": 1, "protocol": "grpc"}' in call
    assert "http://testserver/api/v1/benchmarks" in call
    assert ">gRPC</option>" in page


def test_a_model_that_is_not_deployed_has_no_rate_rather_than_none_at_all(
    world: World, served: ModelVersion
) -> None:
    RuntimeSample.objects.create(
        at=timezone.now(), seconds=1, runtime=Runtime.objects.get(), span_ms=1000
    )
    InferenceModel.objects.create(name="waiting", created_by=world.olga)
    rows = {row.model.name: row.rate for row in model_row_list(models=list(model_rows()))}
    assert rows == {"resnet50": 0, "waiting": None}
    page = world.client().get("/models/").content.decode()
    assert '<span class="unknown" title="no version is deployed">–</span>' in page
