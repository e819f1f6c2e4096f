"""Ends overdue uploads."""

from webapp.uploads.services import uploads_sweep as sweep_uploads
from workers.celery_app import app


@app.task(name="uploads_sweep")
def uploads_sweep() -> None:
    sweep_uploads()
