"""States of a benchmark run and the protocols it can speak."""

from django.db import models


class BenchmarkState(models.TextChoices):
    """UNSTABLE is a result: all was measured, but not every point settled within 10%."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    UNSTABLE = "UNSTABLE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


OPEN_STATES = frozenset({BenchmarkState.QUEUED, BenchmarkState.RUNNING})


class BenchmarkProtocol(models.TextChoices):
    GRPC = "grpc", "gRPC"
    HTTP = "http", "HTTP"
