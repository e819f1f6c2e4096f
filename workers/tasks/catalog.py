"""Checks of versions, and the removal of what crashes left behind."""

from webapp.catalog.services import catalog_sweep as sweep_catalog, version_inspect
from workers.base import run_job
from workers.celery_app import app


@app.task(name="inspect_version")
def inspect_version(job_id: str) -> None:
    run_job(job_id, lambda claim: version_inspect(claim=claim))


@app.task(name="catalog_sweep")
def catalog_sweep() -> None:
    sweep_catalog()
