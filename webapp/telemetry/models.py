"""What happened: samples at falling resolution, and the marks that explain a bend in a chart.

Counts are deltas over the sample's interval, never running totals. Latencies are mergeable
histograms (see inference_runtime.spec.latency), stored sparse as {bucket index: count}.
"""

from typing import ClassVar

from django.db import models

from webapp.serving.models import Runtime


class ServingSample(models.Model):
    """One interval of one version on one runtime, by traffic arm.

    `arm` is "" for requests that named their version, else the role in the traffic table
    ("stable", "canary", or "default" when no table is set).
    """

    at = models.DateTimeField()  # end of the interval
    seconds = models.PositiveIntegerField()  # 1, 10 or 60
    runtime = models.ForeignKey(Runtime, on_delete=models.CASCADE, related_name="+")
    model_name = models.CharField(max_length=100)
    version = models.PositiveIntegerField()
    arm = models.CharField(max_length=20, blank=True)
    generation = models.PositiveIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)  # settled in the interval, all ends
    failures = models.PositiveIntegerField(default=0)  # server faults: backend, internal
    client_faults = models.PositiveIntegerField(default=0)
    rejections = models.PositiveIntegerField(default=0)  # queue full, draining
    timeouts = models.PositiveIntegerField(default=0)
    cancellations = models.PositiveIntegerField(default=0)
    inferences = models.PositiveIntegerField(default=0)
    executions = models.PositiveIntegerField(default=0)
    queue_ns = models.BigIntegerField(default=0)  # summed over successful requests
    compute_ns = models.BigIntegerField(default=0)
    # Gauges at the end of the interval, on one arm of a version; null: on another arm, or not told.
    pending = models.PositiveIntegerField(null=True)
    inflight = models.PositiveIntegerField(null=True)
    latency = models.JSONField(default=dict)  # end-to-end, successful requests

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["model_name", "seconds", "at"]),
            models.Index(fields=["seconds", "at"]),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} v{self.version} {self.at}"


class RuntimeSample(models.Model):
    """One interval of one runtime's process and devices. Null: not measured, with a reason in `notes`.

    The row also says that the runtime was read: a version without a serving sample at the same
    moment was idle, while without this row nothing is known.
    """

    at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    runtime = models.ForeignKey(Runtime, on_delete=models.CASCADE, related_name="+")
    span_ms = models.PositiveIntegerField(default=0)  # time the counts cover; 0: counts unknown
    cpu_percent = models.FloatField(null=True)  # 100 is one core
    memory_bytes = models.BigIntegerField(null=True)
    gpus = models.JSONField(default=list)
    # [{"uuid","utilization","memory_used_bytes","memory_total_bytes","power_watts","temperature_celsius"}]
    gpu_note = models.CharField(max_length=300, blank=True)  # why `gpus` is empty
    notes = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["runtime", "seconds", "at"]),
            models.Index(fields=["seconds", "at"]),
        ]

    def __str__(self) -> str:
        return f"{self.runtime} {self.at}"


class SamplerLease(models.Model):
    """One row: which sampler process leads, and until when it need not prove it again."""

    holder = models.CharField(max_length=60)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"


class EventMark(models.Model):
    """Something that explains a bend in a chart: load, unload, step, promote, abort, restart."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    kind = models.CharField(max_length=30)
    model_name = models.CharField(max_length=100, blank=True)
    runtime_name = models.CharField(max_length=60, blank=True)
    text = models.CharField(max_length=300)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return self.text
