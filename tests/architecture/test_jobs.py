"""A job kind without a task would wait for ever; a task without a kind or schedule is never called."""

from webapp.jobs.choices import JobKind
from workers.celery_app import app
from workers.schedules import EVERY


def _ours() -> set[str]:
    app.loader.import_default_modules()
    return {name for name in app.tasks if not name.startswith("celery.")}


def test_every_job_kind_is_a_task() -> None:
    assert {kind.value for kind in JobKind} <= _ours()


def test_every_task_is_a_job_kind_or_scheduled_or_a_wake_up() -> None:
    scheduled = {every.task for every in EVERY}
    wake_ups = {"push_traffic", "reconcile_runtime"}
    assert _ours() <= {kind.value for kind in JobKind} | scheduled | wake_ups
