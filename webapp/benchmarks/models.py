"""A benchmark run and its points: one point for each rung of the concurrency ladder."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from webapp.benchmarks.choices import BenchmarkProtocol, BenchmarkState
from webapp.catalog.models import ModelVersion
from webapp.core.models import TimestampedModel, public_id
from webapp.serving.models import Runtime


def _new_id() -> str:
    return public_id("bm")


class BenchmarkRun(TimestampedModel):
    id = models.CharField(primary_key=True, max_length=20, default=_new_id, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="benchmarks")
    runtime = models.ForeignKey(Runtime, null=True, on_delete=models.SET_NULL, related_name="+")
    protocol = models.CharField(max_length=4, choices=BenchmarkProtocol.choices)
    state = models.CharField(
        max_length=10, choices=BenchmarkState.choices, default=BenchmarkState.QUEUED
    )
    concurrency = models.JSONField()  # the ladder, ascending
    window_seconds = models.FloatField()
    batch_size = models.PositiveIntegerField(default=1)
    inputs = models.JSONField(null=True)  # v2 `inputs` as given; null: generated
    facts = models.JSONField(default=dict)  # server, cores: what the figures depend on
    reason = models.CharField(max_length=1000, blank=True)
    job_id = models.CharField(max_length=20, blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.id}: {self.version}"


class BenchmarkPoint(models.Model):
    """Latencies in milliseconds, seen by the client; queue and compute as the server counts them."""

    run = models.ForeignKey(BenchmarkRun, on_delete=models.CASCADE, related_name="points")
    concurrency = models.PositiveIntegerField()
    throughput = models.FloatField()  # inferences per second: requests × batch size
    p50_ms = models.FloatField()
    p90_ms = models.FloatField()
    p95_ms = models.FloatField()
    p99_ms = models.FloatField()
    queue_ms = models.FloatField(null=True)  # null: the server gave no statistics
    compute_ms = models.FloatField(null=True)
    realised_batch_size = models.FloatField(null=True)
    requests = models.PositiveIntegerField()
    errors = models.PositiveIntegerField(default=0)
    windows = models.PositiveIntegerField()
    stable = models.BooleanField()
    client_cpu_percent = models.FloatField()  # near 100: the client is what was measured

    class Meta:
        ordering: ClassVar = ["concurrency"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "concurrency"], name="one_point_per_rung")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} at {self.concurrency}"
