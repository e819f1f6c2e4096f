"""Upkeep of telemetry that no tick waits for. Samples are pruned by the sampler itself."""

from webapp.telemetry.rollups import events_prune as prune_events
from workers.celery_app import app


@app.task(name="events_prune")
def events_prune() -> None:
    while prune_events():
        pass
