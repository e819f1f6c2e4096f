"""The REST side of serving: shapes, permissions, If-Match, operations."""

import pytest

from tests.webapp.serving.steps import EDGE, deploy, two_versions
from tests.world import assert_problem
from webapp.audit.models import AuditEvent
from webapp.jobs.models import Job
from webapp.serving.models import Deployment, Runtime

NEW = {"name": "edge", **EDGE}


@pytest.fixture
def operator(yard):
    return yard.world.api_client("operator")


@pytest.fixture
def admin(yard):
    return yard.world.api_client("admin")


def test_deploy_is_an_operation_that_can_be_followed(yard, operator):
    yard.publish(1)
    answer = operator.post("/api/v1/models/echo/versions/1:deploy", {})
    assert answer.status_code == 202
    body = answer.json()
    assert body["state"] == "PENDING"
    assert body["target"] == "/api/v1/models/echo/versions/1"
    assert answer["Operation-Location"] == f"/api/v1/operations/{body['id']}"
    yard.work()
    body = operator.get(answer["Operation-Location"]).json()
    assert body["state"] == "SUCCEEDED"
    assert body["progress"] == 1.0
    assert body["result"]["http_address"] == "127.0.0.1:8000"
    (placement,) = operator.get("/api/v1/models/echo/placements").json()["items"]
    assert placement["desired"] == "loaded"
    assert placement["observed"] == "AVAILABLE"
    assert placement["since"]


def test_undeploy_of_a_version_with_traffic_says_what_to_do(yard, operator):
    two_versions(yard)
    body = assert_problem(
        operator.post("/api/v1/models/echo/versions/1:undeploy", {}), 409, "VERSION_HAS_TRAFFIC"
    )
    assert "Move its traffic" in body["help"]
    assert operator.post("/api/v1/models/echo/versions/2:undeploy", {}).status_code == 202


def test_a_second_deploy_of_the_same_version_names_the_operation(yard, operator, admin):
    yard.publish(1)
    first = operator.post("/api/v1/models/echo/versions/1:deploy", {}).json()
    body = assert_problem(
        admin.post("/api/v1/models/echo/versions/1:deploy", {}), 409, "DEPLOYMENT_IN_PROGRESS"
    )
    assert body["operation"] == first["id"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"runtme": "local"}, "/runtme"),
        ({"traffic": "half"}, "/traffic"),
        ({"runtime": 3}, "/runtime"),
        ({"allow_unsplit": "yes"}, "/allow_unsplit"),
    ],
    ids=["unknown", "traffic", "runtime", "flag"],
)
def test_what_cannot_be_meant_is_refused_by_field(yard, operator, body, pointer):
    yard.publish(1)
    problem = assert_problem(
        operator.post("/api/v1/models/echo/versions/1:deploy", body), 400, "VALIDATION_FAILED"
    )
    assert problem["errors"][0]["pointer"] == pointer


def test_what_is_not_there_is_not_found(yard, operator):
    assert_problem(
        operator.post("/api/v1/models/echo/versions/7:deploy", {}), 404, "VERSION_NOT_FOUND"
    )
    yard.publish(1)
    assert_problem(
        operator.post("/api/v1/models/echo/versions/1:deploy", {"runtime": "mars"}),
        404,
        "RUNTIME_NOT_FOUND",
    )
    assert_problem(operator.get("/api/v1/runtimes/mars"), 404, "RUNTIME_NOT_FOUND")


def test_runtimes_are_listed_with_health_and_counts(yard, operator):
    deploy(yard, yard.publish(1))
    (item,) = operator.get("/api/v1/runtimes").json()["items"]
    assert item["name"] == "local"
    assert item["health"] == "READY"
    assert item["embedded"] is True
    assert item["versions"] == {"desired": 1, "loaded": 1, "drifted": 0, "foreign": 0}
    assert operator.get("/api/v1/runtimes?health=UNREACHABLE").json()["items"] == []


def test_a_runtime_is_added_changed_and_removed(yard, admin, edge):
    answer = admin.post("/api/v1/runtimes", NEW)
    assert answer.status_code == 201
    assert answer["Location"] == "/api/v1/runtimes/edge"
    url, tag = answer["Location"], answer["ETag"]
    change = {"metrics_address": "10.0.0.1:8002"}
    assert_problem(admin.patch(url, change), 428, "IF_MATCH_REQUIRED")
    assert_problem(admin.patch(url, change, headers={"If-Match": '"old"'}), 412, "ETAG_MISMATCH")
    answer = admin.patch(url, change, headers={"If-Match": tag})
    assert answer.json()["metrics_address"] == "10.0.0.1:8002"
    assert_problem(admin.delete(url, headers={"If-Match": tag}), 412, "ETAG_MISMATCH")
    assert admin.delete(url, headers={"If-Match": answer["ETag"]}).status_code == 204
    assert not Runtime.objects.filter(name="edge").exists()


def test_a_runtime_that_does_not_answer_needs_a_second_word(yard, admin, edge):
    edge.down = True
    body = assert_problem(admin.post("/api/v1/runtimes", NEW), 409, "RUNTIME_UNREACHABLE")
    assert "save_anyway" in body["help"]
    answer = admin.post("/api/v1/runtimes", NEW | {"save_anyway": True})
    assert answer.status_code == 201
    assert answer.json()["health"] == "UNREACHABLE"


def test_probe_and_reconcile(yard, operator):
    two_versions(yard)
    yard.fake.restart(keep_state=False)
    assert operator.post("/api/v1/runtimes/local:probe", {}).json()["versions"]["drifted"] == 2
    answer = operator.post("/api/v1/runtimes/local:reconcile", {})
    assert answer.status_code == 202
    yard.work()
    items = operator.get("/api/v1/runtimes/local/placements").json()["items"]
    assert {item["observed"] for item in items} == {"AVAILABLE"}


def test_roles(yard, edge):
    yard.publish(1)
    viewer = yard.world.api_client("viewer")
    operator = yard.world.api_client("operator")
    stranger = yard.world.api_client(None)
    for url in ("/api/v1/runtimes", "/api/v1/runtimes/local", "/api/v1/models/echo/serving-config"):
        assert viewer.get(url).status_code == 200
        assert stranger.get(url).status_code == 401
    deploy_url = "/api/v1/models/echo/versions/1:deploy"
    assert_problem(viewer.post(deploy_url, {}), 403, "ROLE_REQUIRED")
    assert_problem(viewer.post("/api/v1/runtimes/local:reconcile", {}), 403, "ROLE_REQUIRED")
    assert_problem(viewer.put("/api/v1/models/echo/serving-config", {}), 403, "ROLE_REQUIRED")
    assert_problem(operator.post("/api/v1/runtimes", NEW), 403, "ROLE_REQUIRED")
    assert stranger.post(deploy_url, {}).status_code == 401


def test_a_repeated_post_with_a_key_deploys_once(yard, operator):
    yard.publish(1)
    headers = {"Idempotency-Key": "once"}
    url = "/api/v1/models/echo/versions/1:deploy"
    first = operator.post(url, {}, headers=headers).json()
    assert operator.post(url, {}, headers=headers).json()["id"] == first["id"]


URL = "/api/v1/models/echo/serving-config"


def test_the_serving_config_is_read_previewed_and_replaced(yard, operator):
    deploy(yard, yard.publish(1))
    answer = operator.get(URL)
    body = answer.json()
    assert body["revision"] == 0
    assert body["settings"]["dynamic_batching"] is True
    assert 'name: "echo"' in body["config"]
    settings = body["settings"] | {"max_batch_size": 8}
    tag = {"If-Match": answer["ETag"]}
    preview = operator.put(f"{URL}?validate_only=true", settings, headers=tag).json()
    assert "max_batch_size: 8" in preview["config"]
    assert any(line.startswith("+ max_batch_size: 8") for line in preview["diff"])
    assert operator.get(URL).json()["revision"] == 0
    assert operator.put(URL, {"settings": settings}, headers=tag).status_code == 202
    yard.work()
    answer = operator.get(URL)
    assert answer.json()["in_force"]["max_batch_size"] == 8
    assert answer.json()["in_force_revision"] == 1
    assert "max_batch_size: 8" in answer.json()["config"]


def test_the_serving_config_needs_if_match(yard, operator):
    deploy(yard, yard.publish(1))
    tag = operator.get(URL)["ETag"]
    assert_problem(operator.put(URL, {"max_batch_size": 8}), 428, "IF_MATCH_REQUIRED")
    assert operator.put(URL, {"max_batch_size": 8}, headers={"If-Match": tag}).status_code == 202
    yard.work()
    body = assert_problem(
        operator.put(URL, {"max_batch_size": 4}, headers={"If-Match": tag}), 412, "ETAG_MISMATCH"
    )
    assert body["current_etag"] == operator.get(URL)["ETag"]


def test_problems_of_the_serving_config_point_at_the_setting(yard, operator):
    deploy(yard, yard.publish(1))
    tag = {"If-Match": operator.get(URL)["ETag"]}
    body = assert_problem(
        operator.put(f"{URL}?validate_only=true", {"instance_count": 0}, headers=tag),
        400,
        "INVALID_SERVING_CONFIG",
    )
    assert body["errors"][0]["pointer"] == "/instance_count"
    assert_problem(operator.put(URL, {"colour": "red"}, headers=tag), 400, "INVALID_SERVING_CONFIG")


def test_a_dry_run_of_a_deployment_loads_nothing_and_leaves_no_trace(yard, operator):
    yard.publish(1)
    answer = operator.post("/api/v1/models/echo/versions/1:deploy?validate_only=true", {})
    assert answer.status_code == 200, answer.content
    assert answer.json()["target"] == "/api/v1/models/echo/versions/1"
    assert answer.json()["parameters"]["runtime"] == "local"
    assert not Job.objects.exists()
    assert not Deployment.objects.exists()
    assert not AuditEvent.objects.filter(action="deployment.request").exists()


def test_a_dry_run_of_an_undeployment_leaves_the_version_where_it_is(yard, operator):
    two_versions(yard)
    jobs = Job.objects.count()
    answer = operator.post("/api/v1/models/echo/versions/2:undeploy?validate_only=true", {})
    assert answer.status_code == 200, answer.content
    assert Job.objects.count() == jobs
    assert Deployment.objects.get(version__number=2).wanted
    refused = operator.post("/api/v1/models/echo/versions/1:undeploy?validate_only=true", {})
    assert_problem(refused, 409, "VERSION_HAS_TRAFFIC")
