"""Kinds of background work, and the states a job moves through."""

from django.db import models


class JobKind(models.TextChoices):
    """The value is the name of the Celery task that carries the job out."""

    INSPECT_VERSION = "inspect_version"
    DEPLOY_VERSION = "deploy_version"
    UNDEPLOY_VERSION = "undeploy_version"
    APPLY_SERVING_CONFIG = "apply_serving_config"
    RECONCILE_RUNTIME = "reconcile_runtime"
    RUN_BENCHMARK = "run_benchmark"


class JobState(models.TextChoices):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
OPEN_STATES = frozenset({JobState.PENDING, JobState.RUNNING})
