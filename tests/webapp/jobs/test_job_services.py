"""Jobs as state: claimed once, fenced, reaped, cancelled, never lost."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from tests.fakes.clock import Clock
from tests.world import claim_of
from webapp.audit.models import AuditEvent
from webapp.core.errors import Conflict
from webapp.jobs import queue
from webapp.jobs.choices import JobKind, JobState
from webapp.jobs.claims import JobCancelled, LeaseLost
from webapp.jobs.hooks import on_lost
from webapp.jobs.models import Job
from webapp.jobs.services import (
    job_cancel,
    job_claim,
    job_fail,
    job_fence,
    job_heartbeat,
    job_request,
    job_succeed,
    jobs_reap,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Wake-ups that would have gone to the broker: (task, job id, queue)."""
    sent: list[tuple[str, str, str]] = []

    class Producer:
        def send_task(self, name: str, *, args: list[str], queue: str, **options: object) -> None:
            sent.append((name, args[0], queue))

    monkeypatch.setattr(queue, "producer", Producer)
    return sent


def ask(kind: JobKind = JobKind.INSPECT_VERSION, **more) -> Job:
    return job_request(kind=kind, subject_id="7", target="models/m", actor=None, **more)


def now(job: Job) -> Job:
    job.refresh_from_db()
    return job


def test_the_wake_up_is_sent_after_the_commit(world, woken, on_commit_now):
    with on_commit_now():
        job = ask()
        assert woken == []
    assert woken == [("inspect_version", job.id, "default")]


def test_benchmarks_have_a_queue_of_their_own(world, woken, on_commit_now):
    with on_commit_now():
        job = ask(JobKind.RUN_BENCHMARK)
    assert woken == [("run_benchmark", job.id, "benchmarks")]


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_request_wakes_nobody(woken):
    with transaction.atomic():
        ask()
        transaction.set_rollback(True)
    assert woken == []
    assert not Job.objects.exists()


def test_only_one_worker_gets_a_job(world):
    job = ask()
    assert job_claim(job_id=job.id, worker="a") is not None
    assert job_claim(job_id=job.id, worker="b") is None


def test_a_broker_that_is_away_does_not_hurt_the_request(world, on_commit_now, monkeypatch):
    class Broken:
        def send_task(self, *args: object, **options: object) -> None:
            raise ConnectionError("no broker")

    monkeypatch.setattr(queue, "producer", Broken)
    with on_commit_now():
        job = ask()
    assert now(job).state == JobState.PENDING


def test_an_expired_lease_gives_the_job_to_another_worker(
    world, clock: Clock, woken, on_commit_now
):
    job = ask()
    first = claim_of(job)
    clock.advance(29)
    assert jobs_reap() == 0
    clock.advance(2)
    with on_commit_now():
        assert jobs_reap() == 1
    assert now(job).state == JobState.PENDING
    assert ("inspect_version", job.id, "default") in woken
    second = claim_of(job)
    assert not job_succeed(claim=first, result={"from": "the dead"})
    assert first.lost
    assert job_succeed(claim=second, result={"from": "the living"})
    assert now(job).result == {"from": "the living"}


def test_a_heartbeat_keeps_the_lease(world, clock: Clock):
    claim = claim_of(ask())
    for _ in range(10):
        clock.advance(20)
        assert job_heartbeat(claim=claim, progress=0.4, phase="half way")
        assert jobs_reap() == 0
    assert now(claim.job).progress == 0.4
    assert claim.job.phase == "half way"


def test_the_second_death_ends_the_job_with_a_reason(world, clock: Clock, woken):
    job = ask(max_attempts=2)
    for _ in range(2):
        claim_of(job)
        clock.advance(31)
        jobs_reap()
    assert now(job).state == JobState.FAILED
    assert job.error["reason"] == "WORKER_LOST"
    assert "died 2 times" in job.error["detail"]
    assert job_claim(job_id=job.id, worker="late") is None


def test_a_lost_wake_up_is_repeated(world, clock: Clock, woken):
    job = ask()
    clock.advance(5)
    jobs_reap()
    assert woken == []
    clock.advance(6)
    jobs_reap()
    jobs_reap()
    assert woken == [("inspect_version", job.id, "default")]


def test_cancelling_a_waiting_job_ends_it_now(world):
    job = job_cancel(job=ask(), actor=world.olga)
    assert job.state == JobState.CANCELLED
    assert job_claim(job_id=job.id, worker="w") is None
    event = AuditEvent.objects.get(action="job.cancel")
    assert (event.before["state"], event.after["state"]) == ("PENDING", "CANCELLED")


def test_cancelling_a_running_job_asks_its_worker(world):
    claim = claim_of(ask())
    job = job_cancel(job=claim.job, actor=world.olga)
    assert job.state == JobState.RUNNING
    assert not job_heartbeat(claim=claim)
    with pytest.raises(JobCancelled):
        claim.check()


def test_a_cancelled_job_of_a_dead_worker_is_not_tried_again(world, clock: Clock):
    claim = claim_of(ask())
    job_cancel(job=claim.job, actor=world.olga)
    clock.advance(31)
    jobs_reap()
    assert now(claim.job).state == JobState.CANCELLED


def test_an_ended_job_cannot_be_cancelled(world):
    claim = claim_of(ask())
    job_succeed(claim=claim)
    with pytest.raises(Conflict):
        job_cancel(job=claim.job, actor=world.olga)


def test_the_fence_stops_a_worker_that_lost_its_lease(world, clock: Clock):
    claim = claim_of(ask())
    job_fence(claim=claim)
    clock.advance(31)
    jobs_reap()
    with pytest.raises(LeaseLost):
        job_fence(claim=claim)


def test_hooks_hear_of_every_end_without_success(world, clock: Clock):
    heard: list[tuple[str, str]] = []
    on_lost(JobKind.UNDEPLOY_VERSION)(lambda job: heard.append((job.state, job.error["reason"])))
    failed = claim_of(ask(JobKind.UNDEPLOY_VERSION))
    job_fail(claim=failed, reason="X", detail="x")
    job_cancel(job=ask(JobKind.UNDEPLOY_VERSION), actor=None)
    claim_of(ask(JobKind.UNDEPLOY_VERSION, max_attempts=1))
    clock.advance(31)
    jobs_reap()
    job_succeed(claim=claim_of(ask(JobKind.UNDEPLOY_VERSION)))
    assert heard == [("FAILED", "X"), ("CANCELLED", "CANCELLED"), ("FAILED", "WORKER_LOST")]


def test_a_broken_hook_does_not_keep_a_job_open(world):
    def broken(job: Job) -> None:
        raise ZeroDivisionError

    on_lost(JobKind.UNDEPLOY_VERSION)(broken)
    job = job_cancel(job=ask(JobKind.UNDEPLOY_VERSION), actor=None)
    assert now(job).state == JobState.CANCELLED


def test_time_left_is_a_line_through_the_progress(world):
    job = ask()
    assert job.seconds_left is None
    claim = claim_of(job)
    job_heartbeat(claim=claim, progress=0.25)
    claim.job.started_at = timezone.now() - timedelta(seconds=30)
    assert claim.job.seconds_left == pytest.approx(90, abs=2)
