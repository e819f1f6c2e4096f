"""Tells watchers of a rollout how it stands now."""

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from webapp.core.errors import NotFound
from webapp.core.events import publish
from webapp.rollouts.models import Rollout
from webapp.rollouts.report import rollout_body, rollout_summary
from webapp.rollouts.selectors import rollout_get, rollouts_active


def rollout_publish(*, rollout: Rollout, moved: bool = False) -> None:
    """After the commit, so that what is told includes the shares the runtimes have confirmed."""
    transaction.on_commit(lambda: _tell(rollout.id, moved=moved), robust=True)


def _tell(rollout_id: str, *, moved: bool) -> None:
    rollout = rollout_get(rollout_id=rollout_id)
    publish(topic=f"rollout:{rollout.id}", data=rollout_body(rollout))
    if moved:
        publish(topic="rollouts", data=rollouts_snapshot())


def rollouts_snapshot() -> dict[str, Any]:
    return {"items": [rollout_summary(rollout) for rollout in rollouts_active()]}


def rollout_topic(name: str, user: AbstractUser) -> dict[str, Any] | None:
    try:
        return rollout_body(rollout_get(rollout_id=name))
    except NotFound:
        return None


def rollouts_topic(name: str, user: AbstractUser) -> dict[str, Any] | None:
    return None if name else rollouts_snapshot()
