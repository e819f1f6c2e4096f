"""Wakes a worker for a job: a message with the job's id, sent by task name. It decides nothing."""

import logging
from functools import lru_cache
from typing import Any

from celery import Celery
from django.conf import settings
from django.utils import timezone

from webapp.jobs.choices import JobKind
from webapp.jobs.models import Job

logger = logging.getLogger(__name__)

_QUEUES: dict[str, str] = {JobKind.RUN_BENCHMARK: "benchmarks"}
# An unread wake-up is repeated by the reaper, so old ones need not pile up behind a busy worker.
_EXPIRES_SECONDS = 60


def queue_of(kind: str) -> str:
    return _QUEUES.get(kind, "default")


def wake(job: Job) -> None:
    """Never raises: with the broker away the row stays PENDING and the reaper wakes it later."""
    Job.objects.filter(pk=job.pk).update(woken_at=timezone.now())
    send(name=job.kind, args=[job.id], queue=queue_of(job.kind), expires=_EXPIRES_SECONDS)


def send(
    *, name: str, args: list[Any], queue: str = "default", expires: int = _EXPIRES_SECONDS
) -> bool:
    """Sends a message to a task by name, for wake-ups that are not jobs; False when it cannot."""
    try:
        producer().send_task(name, args=args, queue=queue, expires=expires, retry=False)
    except Exception as error:  # noqa: BLE001 - the broker's libraries raise many kinds; the row is the truth
        logger.warning("wake-up %s%s not sent: %s", name, args, error)
        return False
    return True


def forget_producer() -> None:
    """The next wake-up reads the broker's address anew."""
    producer.cache_clear()


@lru_cache(maxsize=1)
def producer() -> Celery:
    app = Celery("switchyard", broker=settings.CELERY_BROKER_URL, set_as_current=False)
    app.conf.update(settings.CELERY_BROKER_OPTIONS)
    return app
