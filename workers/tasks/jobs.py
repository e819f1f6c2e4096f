"""Housekeeping of jobs and of the API's memory."""

from webapp.core.idempotency import idempotency_prune as prune_answers
from webapp.jobs.services import jobs_reap as reap_jobs
from workers.celery_app import app


@app.task(name="jobs_reap")
def jobs_reap() -> None:
    reap_jobs()


@app.task(name="idempotency_prune")
def idempotency_prune() -> None:
    prune_answers()
