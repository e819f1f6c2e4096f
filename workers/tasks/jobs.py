"""Housekeeping of jobs, of the API's memory and of sign-ins."""

from importlib import import_module

from django.conf import settings

from webapp.accounts.services import logins_prune
from webapp.core.idempotency import idempotency_prune
from webapp.jobs.services import jobs_reap as reap_jobs
from workers.celery_app import app


@app.task(name="jobs_reap")
def jobs_reap() -> None:
    reap_jobs()


@app.task(name="leftovers_prune")
def leftovers_prune() -> None:
    idempotency_prune()
    logins_prune()
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
