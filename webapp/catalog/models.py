"""What people manage: models, their immutable numbered versions, and the names that point at them."""

from typing import ClassVar

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

from webapp.catalog.choices import Stage, VersionState
from webapp.core.models import TimestampedModel
from webapp.jobs.models import Job
from webapp.uploads.models import Upload
from webapp.uploads.names import NAME_PATTERN, NAME_RULE

name_validator = RegexValidator(NAME_PATTERN, NAME_RULE)


class InferenceModel(TimestampedModel):
    name = models.CharField(max_length=100, unique=True, validators=[name_validator])
    description = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    last_version = models.PositiveIntegerField(default=0)  # numbers are never used twice

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class ModelVersion(TimestampedModel):
    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    state = models.CharField(
        max_length=12, choices=VersionState.choices, default=VersionState.QUARANTINED
    )
    backend = models.CharField(max_length=40, blank=True)
    config_text = models.TextField(blank=True)  # config.pbtxt as uploaded; "" when there was none
    inputs = models.JSONField(default=list)  # [{"name","datatype","shape"}], batch axis as -1
    outputs = models.JSONField(default=list)
    files = models.JSONField(default=list)  # [{"name","size_bytes","sha256"}]
    checks = models.JSONField(default=list)  # [{"name","status","detail","fix"}]
    metadata = models.JSONField(default=dict)  # opsets, producer, parameter count, batchable …
    size_bytes = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)  # SHA-256 over the sorted file digests
    source_name = models.CharField(max_length=255, blank=True)  # file name the person uploaded
    note = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    published_at = models.DateTimeField(null=True)
    upload = models.ForeignKey(Upload, null=True, on_delete=models.SET_NULL, related_name="+")
    inspection = models.ForeignKey(  # the job that checks it, or checked it last
        Job, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering: ClassVar = ["-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "number"], name="version_number_once")
        ]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.number}"

    @property
    def api_path(self) -> str:
        return f"models/{self.model.name}/versions/{self.number}"


class StagePointer(TimestampedModel):
    """Staging or production: a name that points at exactly one version of a model."""

    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="stages")
    stage = models.CharField(max_length=12, choices=Stage.choices)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "stage"], name="one_pointer_per_stage")
        ]

    def __str__(self) -> str:
        return f"{self.model.name} {self.stage}"


class Alias(TimestampedModel):
    """A free name for a version, such as `champion`."""

    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=60, validators=[name_validator])
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="aliases")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "name"], name="one_version_per_alias")
        ]

    def __str__(self) -> str:
        return f"{self.model.name}@{self.name}"


class Promotion(models.Model):
    """One entry in the log of stage switches."""

    at = models.DateTimeField(auto_now_add=True)
    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="promotions")
    stage = models.CharField(max_length=12, choices=Stage.choices)
    from_version = models.ForeignKey(
        ModelVersion, null=True, on_delete=models.PROTECT, related_name="+"
    )
    to_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="+")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.model.name} {self.stage} → v{self.to_version.number}"
