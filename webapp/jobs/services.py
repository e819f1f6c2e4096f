"""The only writer of job states. Every write names the state and token it expects to find.

PENDING → RUNNING (claim) → SUCCEEDED | FAILED | CANCELLED (settle)
RUNNING → PENDING when a lease runs out with attempts left, or a worker stops and hands its job back.
"""

import logging
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.accounts.models import User
from webapp.audit.services import audit_record
from webapp.core.errors import Conflict
from webapp.core.events import publish
from webapp.core.operations import operation_body
from webapp.jobs.choices import TERMINAL_STATES, JobKind, JobState
from webapp.jobs.claims import Claim, LeaseLost
from webapp.jobs.hooks import run_hooks
from webapp.jobs.models import Job
from webapp.jobs.queue import wake
from webapp.jobs.selectors import jobs_expired, jobs_unheard

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
HEARTBEAT_SECONDS = 5.0
_UNHEARD_AFTER = timedelta(seconds=10)


def job_request(
    *,
    kind: JobKind,
    subject_id: str,
    target: str,
    actor: User | None,
    parameters: dict[str, Any] | None = None,
    max_attempts: int = 2,
) -> Job:
    """Writes the row now and wakes a worker once the caller's transaction is committed."""
    job = Job.objects.create(
        kind=kind.value,
        subject_id=str(subject_id),
        target=target,
        requested_by=actor,
        parameters=parameters or {},
        max_attempts=max_attempts,
        woken_at=timezone.now(),
    )
    _tell(job)
    transaction.on_commit(lambda: wake(job))
    return job


def job_claim(*, job_id: str, worker: str) -> Claim | None:
    """None when there is nothing to do: gone, settled, or somebody else was faster."""
    job = Job.objects.filter(id=job_id, state=JobState.PENDING, cancel_requested=False).first()
    if job is None:
        return None
    now = timezone.now()
    token = job.fencing_token + 1
    taken = Job.objects.filter(
        id=job_id,
        state=JobState.PENDING,
        cancel_requested=False,
        fencing_token=job.fencing_token,
    ).update(
        state=JobState.RUNNING,
        attempt=F("attempt") + 1,
        fencing_token=token,
        lease_until=now + LEASE,
        started_at=job.started_at or now,
        worker=worker[:120],
        progress=0.0,
        phase="starting",
        updated_at=now,
    )
    if not taken:
        return None
    job.refresh_from_db()
    _tell(job)
    return Claim(job=job, token=token, worker=worker)


def job_heartbeat(*, claim: Claim, progress: float | None = None, phase: str | None = None) -> bool:
    """Renews the lease and says how far the work is. False: stop; `claim` says why."""
    now = timezone.now()
    changes: dict[str, Any] = {"lease_until": now + LEASE, "updated_at": now}
    if progress is not None:
        changes["progress"] = min(1.0, max(0.0, progress))
    if phase is not None:
        changes["phase"] = phase[:120]
    if not _owned(claim).update(**changes):
        claim.lost = True
        return False
    claim.cancelled = Job.objects.values_list("cancel_requested", flat=True).get(id=claim.job.id)
    if progress is not None or phase is not None:
        claim.job.refresh_from_db()
        _tell(claim.job)
    return not claim.cancelled


def job_fence(*, claim: Claim) -> None:
    """Call first inside the transaction that writes a job's outcome: raises LeaseLost, so that an
    attempt given up for dead writes nothing. Holds the job's row until the transaction ends."""
    if not _owned(claim).select_for_update().exists():
        claim.lost = True
        raise LeaseLost(claim.job.id)


def job_succeed(*, claim: Claim, result: dict[str, Any] | None = None) -> bool:
    return _settle(claim, JobState.SUCCEEDED, result=result, progress=1.0, phase="done")


def job_fail(*, claim: Claim, reason: str, detail: str, fix: str = "") -> bool:
    return _settle(
        claim,
        JobState.FAILED,
        error={"reason": reason, "detail": detail, "fix": fix},
        phase="failed",
    )


def job_cancelled(*, claim: Claim) -> bool:
    """The worker has stopped at a safe place."""
    return _settle(
        claim,
        JobState.CANCELLED,
        error={"reason": "CANCELLED", "detail": "Cancelled while it ran.", "fix": ""},
        phase="cancelled",
    )


def job_release(*, claim: Claim) -> bool:
    """A worker that is told to stop hands its job back; the attempt does not count. One that was
    cancelled meanwhile ends, as nobody would take it up again."""
    now = timezone.now()
    released = (
        _owned(claim)
        .filter(cancel_requested=False)
        .update(
            state=JobState.PENDING,
            attempt=F("attempt") - 1,
            lease_until=None,
            worker="",
            phase="waiting for a worker",
            woken_at=None,  # the reaper wakes it at once; this worker is going away
            updated_at=now,
        )
    )
    if not released and _owned(claim).exists():
        return job_cancelled(claim=claim)
    claim.settled = True
    if released:
        claim.job.refresh_from_db()
        _tell(claim.job)
    return bool(released)


def job_cancel(*, job: Job, actor: User | None) -> Job:
    """A waiting job ends now; a running one is asked to, and ends at its worker's next step."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(id=job.id)
        if job.state in TERMINAL_STATES:
            raise Conflict(
                f"Operation {job.id} has ended already ({job.state}).",
                reason="OPERATION_ENDED",
            )
        if job.state == JobState.RUNNING and job.cancel_requested:
            return job  # asked before: nothing changes
        before = job.state
        if job.state == JobState.PENDING:
            _end_outside(
                job,
                JobState.CANCELLED,
                {"reason": "CANCELLED", "detail": "Cancelled before it started.", "fix": ""},
            )
        else:
            Job.objects.filter(id=job.id).update(cancel_requested=True, updated_at=timezone.now())
            job.refresh_from_db()
            _tell(job)
        audit_record(
            actor=actor,
            action="job.cancel",
            target=job.api_path,
            before={"state": before},
            after={"state": job.state, "cancel_requested": job.cancel_requested},
        )
    return job


def jobs_reap() -> int:
    """Gives jobs of dead workers to others or ends them, and repeats wake-ups that may be lost.

    Safe to run twice at once: each step is a guarded update.
    """
    now = timezone.now()
    moved = sum(_reap(job) for job in jobs_expired(now=now)[:200])
    for job in jobs_unheard(woken_before=now - _UNHEARD_AFTER).order_by("created_at")[:200]:
        wake(job)
        moved += 1
    return moved


def _reap(job: Job) -> bool:
    with transaction.atomic():
        if job.cancel_requested:
            error = {"reason": "CANCELLED", "detail": "Cancelled; its worker is gone.", "fix": ""}
            return _end_outside(job, JobState.CANCELLED, error)
        if job.attempt < job.max_attempts:
            return _requeue(job)
        times = "once" if job.attempt == 1 else f"{job.attempt} times"
        error = {
            "reason": "WORKER_LOST",
            "detail": f"The worker that ran this died {times} ({job.worker or 'unknown'}).",
            "fix": "Start it again. If it happens again, the work itself may be too big: "
            "look at the worker's log for memory or crash messages.",
        }
        return _end_outside(job, JobState.FAILED, error)


def _requeue(job: Job) -> bool:
    now = timezone.now()
    moved = Job.objects.filter(
        id=job.id, state=JobState.RUNNING, fencing_token=job.fencing_token, lease_until__lt=now
    ).update(
        state=JobState.PENDING,
        lease_until=None,
        worker="",
        phase="waiting for a worker (the last one died)",
        woken_at=now,
        updated_at=now,
    )
    if moved:
        logger.warning("job %s (%s): worker lost, attempt %d", job.id, job.kind, job.attempt)
        job.refresh_from_db()
        _tell(job)
        transaction.on_commit(lambda: wake(job))
    return bool(moved)


def _end_outside(job: Job, state: JobState, error: dict[str, Any]) -> bool:
    """Ends a job that no living worker holds. The token moves on, so a late worker cannot write."""
    now = timezone.now()
    moved = Job.objects.filter(id=job.id, state=job.state, fencing_token=job.fencing_token).update(
        state=state,
        error=error,
        fencing_token=F("fencing_token") + 1,
        lease_until=None,
        ended_at=now,
        updated_at=now,
        phase=state.lower(),
    )
    if moved:
        job.refresh_from_db()
        run_hooks(job)
        _tell(job)
    return bool(moved)


def _settle(claim: Claim, state: JobState, **changes: Any) -> bool:
    """False when the lease is lost: the outcome is thrown away, another attempt decides."""
    now = timezone.now()
    with transaction.atomic():
        settled = _owned(claim).update(
            state=state, lease_until=None, ended_at=now, updated_at=now, **changes
        )
        if settled:
            claim.job.refresh_from_db()
            if state != JobState.SUCCEEDED:
                run_hooks(claim.job)
            _tell(claim.job)
    claim.settled = True
    claim.lost = claim.lost or not settled
    return bool(settled)


def _owned(claim: Claim) -> Any:
    return Job.objects.filter(id=claim.job.id, state=JobState.RUNNING, fencing_token=claim.token)


def _tell(job: Job) -> None:
    publish(topic=f"job:{job.id}", data=operation_body(job))
