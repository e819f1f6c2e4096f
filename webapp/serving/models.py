"""What should run where: runtimes, deployments, the serving config of a model, its traffic table."""

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.models import TimestampedModel
from webapp.serving.choices import DeploymentState, RuntimeHealth


class Runtime(TimestampedModel):
    """One serving process, ours or a Triton, known by its addresses (host:port, no scheme)."""

    name = models.SlugField(max_length=60, unique=True)
    http_address = models.CharField(max_length=200)
    grpc_address = models.CharField(max_length=200)
    metrics_address = models.CharField(max_length=200, blank=True)
    embedded = models.BooleanField(default=False)  # the one `make run` starts
    server_name = models.CharField(max_length=60, blank=True)
    server_version = models.CharField(max_length=60, blank=True)
    extensions = models.JSONField(default=list)
    health = models.CharField(
        max_length=12, choices=RuntimeHealth.choices, default=RuntimeHealth.UNKNOWN
    )
    health_reason = models.CharField(max_length=500, blank=True)
    health_since = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    index = models.JSONField(default=list)  # as last seen: [{"model","version","state","reason"}]

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Deployment(TimestampedModel):
    """The wish that a version runs on a runtime, and what is observed of it."""

    runtime = models.ForeignKey(Runtime, on_delete=models.CASCADE, related_name="deployments")
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="deployments")
    wanted = models.BooleanField(default=True)
    state = models.CharField(
        max_length=10, choices=DeploymentState.choices, default=DeploymentState.PENDING
    )
    reason = models.CharField(max_length=1000, blank=True)
    since = models.DateTimeField(auto_now_add=True)  # when `state` last changed
    failed_loads = models.PositiveIntegerField(default=0)  # in a row
    retry_at = models.DateTimeField(
        null=True
    )  # when a FAILED one is tried again; null: not by itself

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["runtime", "version"], name="one_deployment_per_runtime"
            )
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.runtime}"


class ServingConfig(TimestampedModel):
    """The serving settings that matter, per model. Null means: what the artifact says or the default.

    The columns are what was asked for last; `applied` is what the runtimes were last loaded with
    and go on with when they refuse the newer values.
    """

    model = models.OneToOneField(
        InferenceModel, on_delete=models.CASCADE, related_name="serving_config"
    )
    instance_count = models.PositiveIntegerField(
        null=True, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    max_batch_size = models.PositiveIntegerField(null=True, validators=[MaxValueValidator(4096)])
    dynamic_batching = models.BooleanField(default=True)
    preferred_batch_sizes = models.JSONField(default=list)
    max_queue_delay_microseconds = models.PositiveIntegerField(default=0)
    max_queue_size = models.PositiveIntegerField(default=0)  # 0: no limit of its own
    default_timeout_microseconds = models.PositiveIntegerField(default=0)  # 0: none
    revision = models.PositiveIntegerField(default=1)
    applied = models.JSONField(null=True)  # null: uploaded configs are used as they are
    applied_revision = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=1000, blank=True)  # why `revision` is not in force

    def __str__(self) -> str:
        return f"serving config of {self.model.name}"


class LoadedConfig(TimestampedModel):
    """The config.pbtxt a runtime last loaded a model with, and how a newer one fared."""

    runtime = models.ForeignKey(Runtime, on_delete=models.CASCADE, related_name="configs")
    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="+")
    text = models.TextField(blank=True)
    versions = models.JSONField(default=list)
    loaded_at = models.DateTimeField(null=True)
    refused_text = models.TextField(blank=True)  # the newer config that could not be loaded
    error = models.CharField(max_length=1000, blank=True)
    failed_loads = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["runtime", "model"], name="one_loaded_config")
        ]

    def __str__(self) -> str:
        return f"{self.model.name} on {self.runtime}"


class WorkLease(models.Model):
    """Who is changing what a runtime has loaded of a model; one at a time."""

    name = models.CharField(max_length=160, primary_key=True)
    holder = models.CharField(max_length=80, blank=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"


class TrafficTable(TimestampedModel):
    """All shares of a model at once. Replaced whole; `generation` only grows."""

    model = models.OneToOneField(InferenceModel, on_delete=models.CASCADE, related_name="traffic")
    generation = models.PositiveIntegerField(default=1)
    salt = models.CharField(max_length=40)
    unit_header = models.CharField(max_length=80, blank=True)  # "": one draw per request
    arms = models.JSONField(
        default=list
    )  # [{"version": 3, "variant": None, "role", "weight": 0.95}]

    def __str__(self) -> str:
        return f"{self.model.name} generation {self.generation}"


class TrafficApplied(TimestampedModel):
    """The table a runtime last confirmed."""

    runtime = models.ForeignKey(Runtime, on_delete=models.CASCADE, related_name="traffic")
    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="+")
    generation = models.PositiveIntegerField(default=0)
    arms = models.JSONField(default=list)
    applied_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["runtime", "model"], name="one_applied_table")
        ]

    def __str__(self) -> str:
        return f"{self.model.name} on {self.runtime}: {self.generation}"
