"""Health of a runtime, and the observed state of a version on it."""

from django.db import models


class RuntimeHealth(models.TextChoices):
    UNKNOWN = "UNKNOWN"
    READY = "READY"
    NOT_READY = "NOT_READY"
    UNREACHABLE = "UNREACHABLE"


class DeploymentState(models.TextChoices):
    """Observed. Desired is `Deployment.wanted`."""

    PENDING = "PENDING"
    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    UNLOADED = "UNLOADED"
    FAILED = "FAILED"


class ArmRole(models.TextChoices):
    STABLE = "stable"
    CANARY = "canary"
