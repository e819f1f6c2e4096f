"""The real Celery application with the sample tasks in place of the product's."""

from workers.celery_app import app

app.conf.imports = ("workers.tasks.jobs", "tests.workers.sample_tasks")
app.conf.worker_silent_seconds = 3.0
