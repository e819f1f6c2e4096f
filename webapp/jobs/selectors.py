"""Reads of jobs."""

from datetime import datetime

from django.db.models import QuerySet

from webapp.core.errors import NotFound
from webapp.jobs.choices import OPEN_STATES, JobState
from webapp.jobs.models import Job


def job_list(*, state: str | None = None, kind: str | None = None) -> QuerySet[Job]:
    rows = Job.objects.select_related("requested_by")
    if state:
        rows = rows.filter(state=state)
    if kind:
        rows = rows.filter(kind=kind)
    return rows


def job_get(*, job_id: str) -> Job:
    job = Job.objects.select_related("requested_by").filter(id=job_id).first()
    if job is None:
        raise NotFound(f"There is no operation {job_id!r}.", reason="OPERATION_NOT_FOUND")
    return job


def jobs_open(*, target: str | None = None) -> QuerySet[Job]:
    """Pending and running; those of one thing when `target` is given."""
    rows = Job.objects.filter(state__in=OPEN_STATES)
    return rows.filter(target=target) if target else rows


def jobs_expired(*, now: datetime) -> QuerySet[Job]:
    """Running, but nobody has renewed the lease: the worker is gone."""
    return Job.objects.filter(state=JobState.RUNNING, lease_until__lt=now)


def jobs_unheard(*, woken_before: datetime) -> QuerySet[Job]:
    """Pending, and the wake-up was sent so long ago that it may be lost."""
    return Job.objects.filter(state=JobState.PENDING).exclude(woken_at__gte=woken_before)
