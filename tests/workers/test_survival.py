"""kill -9 of the worker and of Redis: every job still comes to a proper end. Real processes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import Celery
from django.conf import settings
from django.test import override_settings

from tests.fakes.redis_server import RedisServer
from tests.workers.processes import Processes, eventually
from webapp.jobs import queue
from webapp.jobs.choices import JobKind, JobState
from webapp.jobs.models import Job
from webapp.jobs.services import job_cancel, job_request, jobs_reap
from workers.lifecycle import EXIT_STUCK

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def processes(live_redis: RedisServer, tmp_path: Path) -> Iterator[Processes]:
    with (
        override_settings(CELERY_BROKER_URL=live_redis.broker_url),
        Processes(home=tmp_path, redis_url=live_redis.url) as processes,
    ):
        queue.forget_producer()
        yield processes
    queue.forget_producer()


def ask(gate: Path | None = None, kind: JobKind = JobKind.INSPECT_VERSION) -> Job:
    parameters = {"gate": str(gate)} if gate else {}
    return job_request(
        kind=kind, subject_id="1", target="models/m", actor=None, parameters=parameters
    )


def wait_for(job: Job, state: JobState, *, limit_s: float = 30) -> Job:
    def reached() -> bool:
        job.refresh_from_db()
        return job.state == state

    eventually(reached, limit_s=limit_s, what=f"{job} {state}, is {job.state} {job.error}")
    return job


def test_a_job_runs_and_reports(processes: Processes, tmp_path: Path):
    processes.worker()
    gate = tmp_path / "gate"
    job = wait_for(ask(gate), JobState.RUNNING)
    eventually(lambda: Job.objects.get(id=job.id).phase == "waiting at the gate")
    gate.touch()
    assert wait_for(job, JobState.SUCCEEDED).result["attempt"] == 1


def test_a_job_of_a_killed_worker_is_done_by_another(processes: Processes, tmp_path: Path):
    first = processes.worker()
    gate = tmp_path / "gate"
    job = wait_for(ask(gate), JobState.RUNNING)
    processes.kill(first)
    gate.touch()
    # The lease would run out in 30 s; nobody needs to wait for it here.
    Job.objects.filter(id=job.id).update(lease_until=job.started_at)
    processes.worker()
    processes.beat()
    wait_for(job, JobState.SUCCEEDED)
    assert job.attempt == 2


def test_a_job_whose_workers_die_twice_fails_with_a_reason(processes: Processes, tmp_path: Path):
    job = ask(tmp_path / "never")
    for attempt in (1, 2):
        worker = processes.worker()
        wait_for(job, JobState.RUNNING)
        assert job.attempt == attempt
        processes.kill(worker)
        Job.objects.filter(id=job.id).update(lease_until=job.started_at)
        jobs_reap()
    assert wait_for(job, JobState.FAILED).error["reason"] == "WORKER_LOST"


def test_tasks_flow_again_after_redis_is_killed_and_restarted(
    processes: Processes, live_redis: RedisServer, tmp_path: Path
):
    worker, beat = processes.worker(), processes.beat()
    wait_for(ask(), JobState.SUCCEEDED)
    gate = tmp_path / "gate"
    running = wait_for(ask(gate), JobState.RUNNING)
    live_redis.kill()
    unheard = ask()  # its wake-up has nowhere to go
    assert unheard.state == JobState.PENDING
    gate.touch()
    wait_for(running, JobState.SUCCEEDED)
    live_redis.start()
    wait_for(ask(), JobState.SUCCEEDED, limit_s=60)
    wait_for(unheard, JobState.SUCCEEDED, limit_s=60)
    assert worker.poll() is None
    assert beat.poll() is None


@pytest.mark.parametrize(
    ("tell", "signum"), [(os.kill, signal.SIGQUIT), (os.killpg, signal.SIGTERM)]
)
def test_a_stopping_worker_hands_its_job_back(
    processes: Processes, tmp_path: Path, tell: Callable[[int, int], None], signum: int
):
    """SIGQUIT is Celery's word for it; SIGTERM to the whole group is what the supervisor sends."""
    worker = processes.worker()
    job = wait_for(ask(tmp_path / "never"), JobState.RUNNING)
    told = time.monotonic()
    tell(worker.pid, signum)
    wait_for(job, JobState.PENDING)
    assert job.attempt == 0, "a tidy stop costs no attempt"
    worker.wait(timeout=20)
    print(f"stopped after {time.monotonic() - told:.1f} s")


def test_cancelling_reaches_running_work(processes: Processes, tmp_path: Path):
    processes.worker()
    job = wait_for(ask(tmp_path / "never"), JobState.RUNNING)
    job_cancel(job=job, actor=None)
    assert wait_for(job, JobState.CANCELLED).error["reason"] == "CANCELLED"


def test_a_worker_that_no_longer_consumes_ends_itself(processes: Processes):
    worker = processes.worker()
    wait_for(ask(), JobState.SUCCEEDED)
    with Celery(broker=settings.CELERY_BROKER_URL) as stranger:
        stranger.control.cancel_consumer("default", reply=True)
        ask()
    assert worker.wait(timeout=30) == EXIT_STUCK
