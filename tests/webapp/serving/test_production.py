"""Production follows the traffic: nobody points it at a version that clients do not get."""

from tests.webapp.serving.steps import deploy, split, two_versions
from tests.world import assert_problem
from webapp.audit.models import AuditEvent
from webapp.catalog.models import StagePointer

URL = "/api/v1/models/echo/stages/production:set"


def production() -> int:
    return StagePointer.objects.get(stage="production").version.number


def test_a_version_without_traffic_is_refused_with_the_two_ways_to_give_it_some(yard):
    two_versions(yard)
    switches = AuditEvent.objects.filter(action="stage.switch").count()
    refused = yard.world.api_client().post(URL, {"version": 2, "reason": "by hand"})
    problem = assert_problem(refused, 409, "VERSION_HAS_NO_TRAFFIC")
    assert "/models/echo/rollouts" in problem["help"]
    assert '{"traffic": "all"}' in problem["help"]
    assert production() == 1
    assert AuditEvent.objects.filter(action="stage.switch").count() == switches


def test_a_version_that_is_not_deployed_at_all_is_refused_too(yard):
    yard.publish(1)
    assert_problem(yard.world.api_client().post(URL, {"version": 1}), 409, "VERSION_HAS_NO_TRAFFIC")
    dry = yard.world.api_client().post(f"{URL}?validate_only=true", {"version": 1})
    assert_problem(dry, 409, "VERSION_HAS_NO_TRAFFIC")


def test_neither_the_canary_nor_a_third_version_becomes_production_during_a_rollout(yard):
    two_versions(yard)
    deploy(yard, yard.publish(3))
    split(yard, 0.3)
    api = yard.world.api_client()
    on_trial = assert_problem(api.post(URL, {"version": 2}), 409, "ROLLOUT_ACTIVE")
    assert "Promote or abort" in on_trial["help"]
    assert_problem(api.post(URL, {"version": 3}), 409, "ROLLOUT_ACTIVE")
    assert production() == 1


def test_the_version_with_the_traffic_may_be_named_and_staging_is_free(yard):
    two_versions(yard)
    api = yard.world.api_client()
    assert api.post(URL, {"version": 1}).status_code == 200
    assert api.post("/api/v1/models/echo/stages/staging:set", {"version": 2}).status_code == 200


def test_all_traffic_on_deploy_moves_production_along(yard):
    two_versions(yard)
    version = yard.publish(3)
    assert deploy(yard, version, traffic="all").state == "SUCCEEDED"
    assert production() == 3
