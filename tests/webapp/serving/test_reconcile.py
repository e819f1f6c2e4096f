"""The control plane converges: runtimes restart, forget, refuse, and come back."""

import time

import pytest
from django.utils import timezone

from tests.webapp.serving.steps import deploy, split, two_versions
from webapp.core.errors import Conflict
from webapp.jobs.models import Job
from webapp.runtime_client.types import TRAFFIC
from webapp.serving import leases
from webapp.serving.choices import DeploymentState, RuntimeHealth
from webapp.serving.models import Deployment, WorkLease
from webapp.serving.selectors import foreign_models, placement_list
from webapp.serving.services import deployment_request, reconcile_request, runtime_reconcile
from webapp.serving.services.placing import lease_name


def test_a_settled_runtime_makes_no_work(yard):
    two_versions(yard)
    loads = len(yard.fake.load_calls)
    assert yard.probe() == []
    assert len(yard.fake.load_calls) == loads


def test_a_runtime_that_comes_back_with_everything_is_left_alone(yard):
    two_versions(yard)
    split(yard, 0.25)
    yard.fake.restart(keep_state=True)
    assert yard.probe() == []
    assert yard.ready() == [1, 2]


def test_a_runtime_that_forgot_everything_is_loaded_and_never_sends_requests_astray(yard):
    two_versions(yard)
    split(yard, 0.25)
    yard.fake.restart(keep_state=False)
    yard.fake.load_calls.clear()
    jobs = yard.probe()
    assert [job.kind for job in jobs] == ["reconcile_runtime"]
    assert jobs[0].state == "SUCCEEDED", jobs[0].error
    assert yard.fake.load_calls == [("echo", (1,)), ("echo", (1, 2))]
    assert yard.table() == {1: 0.75, 2: 0.25}
    assert yard.probe() == []


def test_a_table_that_got_lost_is_pushed_by_the_probe_itself(yard):
    two_versions(yard)
    yard.fake.traffic_delete("echo", generation=99)
    assert yard.probe() == []
    assert yard.table() == {1: 1.0}


def test_a_broken_version_does_not_keep_the_others_from_coming_back(yard):
    two_versions(yard)
    bad = yard.broken(3)
    deploy(yard, bad)
    yard.fake.restart(keep_state=False)
    yard.probe()
    assert yard.ready() == [1, 2]
    assert yard.deployment(bad).state == DeploymentState.FAILED


def test_a_failed_version_is_tried_again_with_growing_pauses_and_then_left(yard, clock):
    deploy(yard, yard.publish(1))
    bad = yard.broken(2)
    deploy(yard, bad)
    pauses = []
    while (moment := yard.deployment(bad).retry_at) is not None:
        pauses.append(round((moment - clock.now()).total_seconds()))
        assert yard.probe() == []
        clock.advance(pauses[-1] + 1)
        assert [job.kind for job in yard.probe()] == ["reconcile_runtime"]
    assert pauses == [10, 20, 40, 80]
    clock.advance(3600)
    assert yard.probe() == []
    assert yard.ready() == [1]
    assert "cannot be read" in yard.deployment(bad).reason


def test_a_version_that_can_be_loaded_after_all_comes_up_by_itself(yard, clock):
    deploy(yard, yard.publish(1))
    late = yard.broken(2)
    deploy(yard, late)
    (yard.repository / "echo" / "2" / "model.onnx").write_bytes(b"fine")
    clock.advance(11)
    yard.probe()
    assert yard.ready() == [1, 2]
    deployment = yard.deployment(late)
    assert deployment.state == DeploymentState.AVAILABLE
    assert deployment.failed_loads == 0
    assert deployment.reason == ""


def test_an_unreachable_runtime_keeps_what_was_last_seen_and_says_so(yard):
    first, _ = two_versions(yard)
    yard.fake.down = True
    assert yard.probe() == []
    yard.runtime.refresh_from_db()
    assert yard.runtime.health == RuntimeHealth.UNREACHABLE
    assert "Connection refused" in yard.runtime.health_reason
    assert yard.deployment(first).state == DeploymentState.AVAILABLE
    assert yard.runtime.index


def test_not_ready_names_the_version_at_fault(yard):
    deploy(yard, yard.publish(1))
    deploy(yard, yard.broken(2))
    yard.probe()
    yard.runtime.refresh_from_db()
    assert yard.runtime.health == RuntimeHealth.NOT_READY
    assert "echo version 2 cannot be served" in yard.runtime.health_reason


def test_foreign_models_are_shown_and_never_touched(yard):
    deploy(yard, yard.publish(1))
    runtime, fake = yard.attach()
    stranger = yard.repository / "stranger" / "1"
    stranger.mkdir(parents=True)
    (stranger / "model.onnx").write_bytes(b"fine")
    fake.load("stranger")
    assert yard.probe() == []
    runtime.refresh_from_db()
    assert foreign_models(runtime=runtime) == {"stranger"}
    (shown,) = [one for one in placement_list(runtime=runtime) if one.model == "stranger"]
    assert not shown.managed
    assert shown.observed == "AVAILABLE"
    assert [one.model for one in fake.index() if one.ready] == ["stranger"]


def test_a_foreign_model_of_the_same_name_is_not_replaced(yard):
    runtime, fake = yard.attach()
    first = yard.publish(1)
    fake.load("echo")
    yard.probe()
    runtime.refresh_from_db()
    with pytest.raises(Conflict, match="was not deployed from here"):
        deploy(yard, first, runtime=runtime)


def test_a_triton_without_tables_is_managed_and_says_what_it_cannot(yard):
    first = yard.publish(1)
    deploy(yard, first)
    runtime, fake = yard.attach(extensions=("model_repository", "statistics"))
    assert deploy(yard, first, runtime=runtime).state == "SUCCEEDED"
    assert yard.ready(fake) == [1]
    second = yard.publish(2)
    with pytest.raises(Conflict, match="no traffic tables"):
        deploy(yard, second, runtime=runtime)
    assert deploy(yard, second, runtime=runtime, allow_unsplit=True).state == "SUCCEEDED"
    assert yard.probe() == []
    fake.extensions += (TRAFFIC,)
    assert yard.probe() == []
    assert yard.table(fake) == {1: 1.0}


def test_a_reconcile_leaves_alone_what_somebody_else_is_changing(yard):
    two_versions(yard)
    yard.fake.restart(keep_state=False)
    with leases.held(lease_name(runtime=yard.runtime, model=yard.model)):
        result = runtime_reconcile(runtime=yard.runtime)
    assert result["busy"] == ["echo"]
    assert yard.ready() == []
    assert runtime_reconcile(runtime=yard.runtime)["models"] == ["echo"]
    assert yard.ready() == [1, 2]


def test_probes_do_not_reconcile_what_an_open_job_will_settle(yard):
    two_versions(yard)
    yard.fake.restart(keep_state=False)
    deployment_request(version=yard.publish(3), actor=yard.world.olga)
    jobs = yard.probe()
    assert [job.kind for job in jobs] == ["deploy_version"]
    assert yard.ready() == [1, 2, 3]


def test_a_lease_of_a_dead_worker_runs_out(yard):
    lease = leases.Lease("x")
    assert lease.take()
    assert not leases.Lease("x").take()
    assert leases.names_held(prefix="x")
    WorkLease.objects.filter(name="x").update(until=timezone.now() - leases.LEASE)
    assert not leases.names_held(prefix="x")
    assert leases.Lease("x").take()


def test_a_lease_is_renewed_while_the_work_goes_on(yard):
    with leases.held("y", renew_seconds=0.02) as lease:
        taken_until = WorkLease.objects.get(name="y").until
        deadline = time.monotonic() + 10
        while WorkLease.objects.get(name="y").until <= taken_until:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        lease.check()
        WorkLease.objects.filter(name="y").update(holder="somebody else")
        while not lease.lost:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with pytest.raises(leases.LeaseGone):
            lease.check()
    assert WorkLease.objects.get(name="y").holder == "somebody else"


def test_what_a_dead_worker_left_half_done_is_taken_up(yard):
    first = yard.publish(1)
    Deployment.objects.create(
        runtime=yard.runtime, version=first, state=DeploymentState.LOADING, reason=""
    )
    dead = leases.Lease(lease_name(runtime=yard.runtime, model=yard.model))
    assert dead.take()
    yard.probe()
    assert yard.deployment(first).state == DeploymentState.LOADING
    WorkLease.objects.update(until=timezone.now() - leases.LEASE)
    yard.probe()
    assert yard.ready() == [1]
    assert yard.deployment(first).state == DeploymentState.AVAILABLE


def test_two_reconcile_requests_are_one_job(yard):
    first = reconcile_request(runtime=yard.runtime, actor=yard.world.olga)
    assert reconcile_request(runtime=yard.runtime, actor=None).id == first.id
    assert Job.objects.count() == 1
