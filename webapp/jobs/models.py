"""Background work as a row: what is asked, who works on it until when, how it ended.

The Celery message is only a wake-up that carries the row's id. `lease_until` and `fencing_token`
say which attempt owns the row: a worker that lost its lease can no longer write.
"""

import json
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from webapp.core.models import TimestampedModel, public_id
from webapp.core.targets import name_of
from webapp.jobs.choices import JobKind, JobState


def _new_id() -> str:
    return public_id("op")


class Job(TimestampedModel):
    id = models.CharField(primary_key=True, max_length=20, default=_new_id, editable=False)
    kind = models.CharField(max_length=30, choices=JobKind.choices)
    subject_id = models.CharField(max_length=40)  # primary key of the row the task works on
    parameters = models.JSONField(default=dict)
    target = models.CharField(max_length=200)  # API path of what the job makes or changes
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=2)
    lease_until = models.DateTimeField(null=True)
    fencing_token = models.PositiveIntegerField(default=0)
    cancel_requested = models.BooleanField(default=False)
    progress = models.FloatField(default=0.0)  # 0..1
    phase = models.CharField(max_length=120, blank=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)  # {"reason", "detail", "fix"}
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=120, blank=True)  # who holds the lease
    woken_at = models.DateTimeField(null=True)  # when a wake-up was last sent

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [models.Index(fields=["state", "lease_until"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def api_path(self) -> str:
        return f"operations/{self.id}"

    @property
    def subject_name(self) -> str:
        """What it is for, in people's words. A benchmark's path does not say of what it is."""
        model, version = self.parameters.get("model"), self.parameters.get("version")
        return f"{model} v{version}" if model and version else name_of(self.target)

    @property
    def seconds(self) -> float | None:
        """How long it has run, or ran; None before it started."""
        if self.started_at is None:
            return None
        return ((self.ended_at or timezone.now()) - self.started_at).total_seconds()

    @property
    def seconds_left(self) -> float | None:
        """A straight line through the progress so far; None while that would be a guess."""
        seconds = self.seconds
        if self.state != JobState.RUNNING or not seconds or not 0.05 <= self.progress < 1:
            return None
        return seconds / self.progress - seconds

    @property
    def result_text(self) -> str:
        return json.dumps(self.result, indent=2, ensure_ascii=False)

    @property
    def error_text(self) -> str:
        return json.dumps(self.error, indent=2, ensure_ascii=False)
