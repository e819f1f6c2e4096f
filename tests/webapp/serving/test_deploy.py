"""Deploying versions beside each other, and what happens to traffic, config and stages."""

import pytest

from tests.webapp.serving.steps import deploy, split, two_versions
from webapp.audit.models import AuditEvent
from webapp.catalog.choices import Stage, VersionState
from webapp.catalog.selectors import stage_version
from webapp.core.errors import Conflict, PermissionRefused
from webapp.jobs.services import job_cancel
from webapp.serving.choices import DeploymentState
from webapp.serving.models import LoadedConfig
from webapp.serving.selectors import config_in_force, traffic_state, traffic_table
from webapp.serving.services import deployment_request


def test_the_first_version_gets_all_traffic_and_production(yard):
    version = yard.publish(1)
    job = deploy(yard, version)
    assert job.state == "SUCCEEDED", job.error
    assert job.result["runtime"] == "local"
    assert job.result["given_traffic"] is True
    assert yard.ready() == [1]
    assert yard.table() == {1: 1.0}
    assert yard.deployment(version).state == DeploymentState.AVAILABLE
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == version
    assert traffic_state(model=yard.model)["converged"]


def test_a_second_version_waits_beside_it_without_traffic(yard):
    deploy(yard, yard.publish(1))
    job = deploy(yard, yard.publish(2))
    assert job.state == "SUCCEEDED", job.error
    assert job.result["traffic"] == 0
    assert yard.ready() == [1, 2]
    assert yard.table() == {1: 1.0}
    assert "versions: 1\n    versions: 2" in config_in_force(model=yard.model)


def test_the_config_of_what_is_loaded_lies_in_the_repository(yard):
    deploy(yard, yard.publish(1, config_text="max_batch_size: 8"))
    text = (yard.repository / "echo" / "config.pbtxt").read_text()
    assert "max_batch_size: 8" in text
    assert text == config_in_force(model=yard.model)


def test_all_traffic_on_request(yard):
    deploy(yard, yard.publish(1))
    version = yard.publish(2)
    job = deploy(yard, version, traffic="all")
    assert job.state == "SUCCEEDED", job.error
    assert yard.table() == {2: 1.0}
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) == version


def test_a_version_that_cannot_be_loaded_fails_with_the_runtimes_reason_and_the_others_serve_on(
    yard,
):
    deploy(yard, yard.publish(1))
    before = config_in_force(model=yard.model)
    version = yard.broken(2)
    job = deploy(yard, version)
    assert job.state == "FAILED"
    assert job.error["reason"] == "LOAD_FAILED"
    assert "cannot be read as a model" in job.error["detail"]
    assert "Version 1 serves on, untouched" in job.error["detail"]
    assert job.error["fix"]
    deployment = yard.deployment(version)
    assert deployment.state == DeploymentState.FAILED
    assert "cannot be read" in deployment.reason
    assert deployment.retry_at is not None
    assert yard.ready() == [1]
    assert yard.table() == {1: 1.0}
    assert config_in_force(model=yard.model) == before
    assert (yard.repository / "echo" / "config.pbtxt").read_text() == before


def test_a_first_version_that_cannot_be_loaded_leaves_no_traffic_table(yard):
    job = deploy(yard, yard.broken(1))
    assert job.state == "FAILED"
    assert traffic_table(model=yard.model) is None
    assert stage_version(model=yard.model, stage=Stage.PRODUCTION) is None


def test_a_config_that_cannot_be_used_is_the_new_versions_fault(yard):
    deploy(yard, yard.publish(1))
    version = yard.publish(2, config_text="max_batch_size: -3 nonsense")
    job = deploy(yard, version)
    assert job.state == "FAILED"
    assert "config" in job.error["detail"].lower()
    assert yard.ready() == [1]


def test_a_version_whose_files_are_gone_says_so(yard):
    deploy(yard, yard.publish(1))
    version = yard.publish(2)
    (yard.repository / "echo" / "2" / "model.onnx").unlink()
    (yard.repository / "echo" / "2").rmdir()
    job = deploy(yard, version)
    assert job.state == "FAILED"
    assert "does not find echo/2" in job.error["detail"]
    assert yard.ready() == [1]


def test_a_runtime_that_is_down_is_told_apart_from_a_bad_model(yard):
    version = yard.publish(1)
    yard.fake.down = True
    job = deploy(yard, version)
    assert job.error["reason"] == "RUNTIME_UNREACHABLE"
    deployment = yard.deployment(version)
    assert deployment.wanted
    assert deployment.state == DeploymentState.PENDING
    assert "does not answer" in deployment.reason
    yard.fake.down = False
    yard.probe()
    assert yard.ready() == [1]


def test_asking_again_for_a_failed_version_tries_at_once(yard):
    version = yard.broken(1)
    deploy(yard, version)
    (yard.repository / "echo" / "1" / "model.onnx").write_bytes(b"fine")
    job = deploy(yard, version)
    assert job.state == "SUCCEEDED", job.error
    assert yard.deployment(version).failed_loads == 0


def test_two_operators_cannot_deploy_the_same_version_at_once(yard):
    version = yard.publish(1)
    first = deployment_request(version=version, actor=yard.world.olga)
    with pytest.raises(Conflict, match=f"{first.id}, asked for by olga") as conflict:
        deployment_request(version=version, actor=yard.world.ada)
    assert conflict.value.extra["operation"] == first.id


def test_only_ready_versions_can_be_deployed(yard):
    version = yard.publish(1, state=VersionState.REJECTED)
    with pytest.raises(Conflict, match="REJECTED"):
        deployment_request(version=version, actor=yard.world.olga)


def test_a_viewer_may_not_deploy(yard):
    with pytest.raises(PermissionRefused, match="operator"):
        deployment_request(version=yard.publish(1), actor=yard.world.vic)


def test_a_canary_on_trial_keeps_its_traffic(yard):
    two_versions(yard)
    split(yard, 0.1)
    with pytest.raises(Conflict, match="on trial"):
        deployment_request(version=yard.publish(3), actor=yard.world.olga, traffic="all")


def test_a_deploy_is_audited_with_before_and_after(yard):
    version = yard.publish(1)
    deploy(yard, version)
    event = AuditEvent.objects.get(action="deployment.request")
    assert event.target == "models/echo/versions/1"
    assert event.actor_name == "olga"
    assert event.before == {}
    assert event.after["wanted"] is True
    assert AuditEvent.objects.filter(action="traffic.set", actor_name="olga").exists()


def test_a_cancelled_deploy_is_given_up(yard):
    version = yard.publish(1)
    job = deployment_request(version=version, actor=yard.world.olga)
    job_cancel(job=job, actor=yard.world.olga)
    assert not yard.deployment(version).wanted
    yard.probe()
    assert yard.ready() == []


def test_a_new_version_that_brings_a_config_changes_it_for_all(yard):
    deploy(yard, yard.publish(1, config_text="max_batch_size: 8"))
    deploy(yard, yard.publish(2))
    assert "max_batch_size: 8" in config_in_force(model=yard.model)
    deploy(yard, yard.publish(3, config_text="max_batch_size: 16"))
    assert "max_batch_size: 16" in config_in_force(model=yard.model)
    assert LoadedConfig.objects.get().versions == [1, 2, 3]
