"""Taking versions away, and what must not be taken away."""

import pytest

from tests.webapp.serving.steps import deploy, split, two_versions, undeploy
from webapp.core.errors import Conflict
from webapp.serving import hooks
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment
from webapp.serving.selectors import deployment_list, traffic_table
from webapp.serving.services import deployment_remove


def test_a_version_without_traffic_goes_and_the_others_stay(yard):
    _, second = two_versions(yard)
    job = undeploy(yard, second)
    assert job.state == "SUCCEEDED", job.error
    assert yard.ready() == [1]
    assert yard.table() == {1: 1.0}
    assert Deployment.objects.get(version=second).state == DeploymentState.UNLOADED
    assert [row.version.number for row in deployment_list(model=yard.model)] == [1]


def test_it_can_be_deployed_again(yard):
    _, second = two_versions(yard)
    undeploy(yard, second)
    assert deploy(yard, second).state == "SUCCEEDED"
    assert yard.ready() == [1, 2]


def test_a_version_with_traffic_stays(yard):
    first, _ = two_versions(yard)
    with pytest.raises(Conflict, match="has 100% of the traffic") as conflict:
        deployment_remove(version=first, actor=yard.world.olga)
    assert "Move its traffic" in conflict.value.help_text
    assert yard.ready() == [1, 2]


def test_a_canary_stays_even_at_weight_zero(yard):
    _, second = two_versions(yard)
    split(yard, 0.0)
    with pytest.raises(Conflict, match="canary") as conflict:
        deployment_remove(version=second, actor=yard.world.olga)
    assert "abort the rollout" in conflict.value.help_text


def test_the_only_version_goes_when_the_model_is_to_go_out_of_service(yard):
    first = yard.publish(1)
    deploy(yard, first)
    with pytest.raises(Conflict) as conflict:
        deployment_remove(version=first, actor=yard.world.olga)
    assert "out_of_service" in conflict.value.help_text
    job = undeploy(yard, first, out_of_service=True)
    assert job.state == "SUCCEEDED", job.error
    assert yard.ready() == []
    assert yard.table() is None
    table = traffic_table(model=yard.model)
    assert table is not None
    assert table.arms == []
    deploy(yard, first)
    assert yard.table() == {1: 1.0}
    table.refresh_from_db()
    assert table.generation == 3


def test_an_app_above_can_object(yard):
    _, second = two_versions(yard)
    objections = ["version 2 is being measured"]
    hooks.guard_removal(lambda version: objections[0] if objections else "")
    try:
        with pytest.raises(Conflict, match="being measured"):
            deployment_remove(version=second, actor=yard.world.olga)
    finally:
        objections.clear()


def test_what_is_not_deployed_cannot_be_undeployed(yard):
    with pytest.raises(Conflict, match="not deployed"):
        deployment_remove(version=yard.publish(1), actor=yard.world.olga)


def test_a_failed_deployment_can_be_given_up(yard):
    deploy(yard, yard.publish(1))
    bad = yard.broken(2)
    deploy(yard, bad)
    assert undeploy(yard, bad).state == "SUCCEEDED"
    assert [row.version.number for row in deployment_list(model=yard.model)] == [1]
    assert yard.probe() == []


def test_a_runtime_that_is_down_unloads_when_it_is_back(yard):
    _, second = two_versions(yard)
    yard.fake.down = True
    job = undeploy(yard, second)
    assert job.error["reason"] == "RUNTIME_UNREACHABLE"
    yard.fake.down = False
    yard.probe()
    assert yard.ready() == [1]


def test_two_runtimes_need_to_be_told_apart(yard):
    first = yard.publish(1)
    deploy(yard, first)
    runtime, fake = yard.attach()
    deploy(yard, first, runtime=runtime)
    assert yard.ready(fake) == [1]
    assert yard.table(fake) == {1: 1.0}
    with pytest.raises(Conflict, match="several runtimes: edge-1, local"):
        deployment_remove(version=first, actor=yard.world.olga)
    assert undeploy(yard, first, runtime=runtime).state == "SUCCEEDED"
    assert yard.ready(fake) == []
    assert yard.table(fake) is None
    assert yard.table() == {1: 1.0}
