"""One turn of all active rollouts."""

from webapp.rollouts.services import rollouts_tick as tick_rollouts
from workers.celery_app import app


@app.task(name="rollouts_tick")
def rollouts_tick() -> None:
    tick_rollouts()
