"""The Celery application: JSON only, thin tasks, wake-ups that may be lost or doubled without harm."""

import os
from pathlib import Path
from pkgutil import iter_modules

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

import django
from celery import Celery
from django.conf import settings

from workers import lifecycle
from workers.schedules import EVERY

django.setup()

_TASKS = Path(__file__).parent / "tasks"  # found by name: the tasks import this module

app = Celery("switchyard")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    **settings.CELERY_BROKER_OPTIONS,
    accept_content=["json"],
    task_ignore_result=True,
    # The job's row is the truth and its lease finds a dead worker, so a message is done with once
    # somebody has picked it up. Late acknowledgement would only add messages in flight, and kombu
    # fails on those when Redis dies (see lifecycle).
    task_acks_late=False,
    task_default_queue="default",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_enable_prefetch_count_reduction=False,
    worker_soft_shutdown_timeout=3.0,  # short tasks end by themselves, jobs are handed back
    worker_enable_soft_shutdown_on_idle=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    beat_schedule={every.task: every.entry() for every in EVERY},
    beat_schedule_filename=str(settings.HOME / "celerybeat-schedule"),
    beat_max_loop_interval=1,
    timezone="UTC",
    imports=tuple(f"workers.tasks.{module.name}" for module in iter_modules([str(_TASKS)])),
)
lifecycle.install()
