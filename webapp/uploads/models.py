"""Uploads: what is to arrive, which parts have arrived, until when they are kept."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from webapp.core.models import TimestampedModel, public_id
from webapp.uploads.choices import UploadState


def _new_id() -> str:
    return public_id("up")


class Upload(TimestampedModel):
    id = models.CharField(primary_key=True, max_length=20, default=_new_id, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads"
    )
    model_name = models.CharField(max_length=100)  # the model need not exist yet
    file_name = models.CharField(max_length=255)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, blank=True)  # as declared; "" when it was not
    part_size = models.PositiveIntegerField(default=0)  # 0: came in one piece
    config_text = models.TextField(blank=True)
    samples_name = models.CharField(max_length=255, blank=True)  # "": none
    note = models.TextField(blank=True)
    state = models.CharField(
        max_length=10, choices=UploadState.choices, default=UploadState.UPLOADING
    )
    expires_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [models.Index(fields=["state", "expires_at"])]

    def __str__(self) -> str:
        return f"{self.file_name} for {self.model_name}"

    @property
    def part_count(self) -> int:
        return -(-self.size_bytes // self.part_size) if self.part_size else 0

    def part_range(self, number: int) -> tuple[int, int]:
        """Offset and length of part `number`, counted from 1."""
        offset = (number - 1) * self.part_size
        return offset, min(self.part_size, self.size_bytes - offset)


class UploadPart(models.Model):
    """A part whose bytes are on disk. No row, no part: whatever lies at its offset is void."""

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    size_bytes = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    received_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["upload", "number"], name="one_row_per_part")
        ]

    def __str__(self) -> str:
        return f"part {self.number} of {self.upload_id}"
