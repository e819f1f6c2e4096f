"""One attempt at a job: the work runs once, and whatever happens to it, the job gets its end."""

import threading

import pytest

from tests.world import World
from webapp.core.errors import Conflict
from webapp.jobs.choices import JobKind, JobState
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_cancel, job_claim, job_fail, job_request
from webapp.runtime_client.errors import RuntimeUnreachable
from workers.base import run_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(world: World) -> Job:
    return job_request(
        kind=JobKind.INSPECT_VERSION, subject_id="1", target="models/m", actor=world.olga
    )


def settled(job: Job) -> Job:
    job.refresh_from_db()
    return job


def test_the_result_of_the_work_is_the_result_of_the_job(job: Job):
    run_job(job.id, lambda claim: {"answer": 42})
    assert settled(job).state == JobState.SUCCEEDED
    assert job.result == {"answer": 42}
    assert job.progress == 1.0
    assert job.ended_at is not None


def test_a_missing_job_ends_quietly(db: None):
    run_job("op_nothing", lambda claim: pytest.fail("there is nothing to do"))


def test_a_doubled_wake_up_does_the_work_once(job: Job):
    done: list[str] = []
    for _ in range(2):
        run_job(job.id, lambda claim: done.append(claim.job.id))
    assert done == [job.id]


def test_a_job_that_runs_elsewhere_is_left_alone(job: Job):
    assert job_claim(job_id=job.id, worker="elsewhere") is not None
    run_job(job.id, lambda claim: pytest.fail("somebody else has it"))
    assert settled(job).state == JobState.RUNNING


def test_our_own_errors_keep_their_reason_and_fix(job: Job):
    def work(claim: Claim) -> None:
        raise Conflict("The runtime is full.", reason="NO_ROOM", help_text="Undeploy something.")

    run_job(job.id, work)
    assert settled(job).error == {
        "reason": "NO_ROOM",
        "detail": "The runtime is full.",
        "fix": "Undeploy something.",
    }


def test_a_runtimes_fault_keeps_its_sentence(job: Job):
    def work(claim: Claim) -> None:
        raise RuntimeUnreachable("connection refused")

    run_job(job.id, work)
    assert settled(job).error["reason"] == "RUNTIME_UNREACHABLE"
    assert "connection refused" in job.error["detail"]


def test_an_unexpected_error_fails_the_job_and_points_at_the_log(job: Job):
    def work(claim: Claim) -> None:
        raise ZeroDivisionError("oops")

    run_job(job.id, work)
    assert settled(job).state == JobState.FAILED
    assert job.error["reason"] == "INTERNAL"
    assert job.id in job.error["fix"]


def test_work_may_settle_the_job_itself(job: Job):
    def work(claim: Claim) -> None:
        job_fail(claim=claim, reason="REJECTED", detail="Not an ONNX file.")

    run_job(job.id, work)
    assert settled(job).error["reason"] == "REJECTED"


def test_a_lost_lease_drops_the_outcome(job: Job):
    def work(claim: Claim) -> dict[str, str]:
        Job.objects.filter(id=job.id).update(fencing_token=claim.token + 1)
        return {"late": "answer"}

    run_job(job.id, work)
    assert settled(job).state == JobState.RUNNING
    assert job.result is None


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
def test_a_stopping_worker_hands_the_job_back(job: Job, stop: type[BaseException]):
    def work(claim: Claim) -> None:
        raise stop

    with pytest.raises(stop):
        run_job(job.id, work)
    assert settled(job).state == JobState.PENDING
    assert job.attempt == 0


@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_renews_the_lease_and_hears_of_a_cancel(world: World):
    job = job_request(kind=JobKind.INSPECT_VERSION, subject_id="1", target="m", actor=None)

    def work(claim: Claim) -> None:
        before = claim.job.lease_until
        job_cancel(job=job, actor=world.olga)
        heard = threading.Event()
        for _ in range(200):
            if claim.cancelled:
                heard.set()
                break
            heard.wait(0.05)
        assert heard.is_set()
        renewed = Job.objects.get(id=job.id).lease_until
        assert before is not None
        assert renewed is not None
        assert renewed > before
        claim.check()

    run_job(job.id, work, heartbeat_seconds=0.05)
    assert settled(job).state == JobState.CANCELLED
