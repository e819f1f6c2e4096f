"""States of an upload, and which of them still hold bytes."""

from django.db import models


class UploadState(models.TextChoices):
    UPLOADING = "UPLOADING"
    COMPLETED = "COMPLETED"  # a version was made of it; the catalogue owns the bytes now
    ABORTED = "ABORTED"
    EXPIRED = "EXPIRED"
