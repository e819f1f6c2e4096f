"""What a watcher of `job:<id>` is shown first."""

from typing import Any

from django.contrib.auth.models import AbstractUser

from webapp.core.operations import operation_body
from webapp.jobs.models import Job


def job_snapshot(job_id: str, user: AbstractUser) -> dict[str, Any] | None:
    job = Job.objects.filter(id=job_id).first()
    return operation_body(job) if job is not None else None
