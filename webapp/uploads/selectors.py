"""Reads of uploads."""

from datetime import datetime

from django.db.models import QuerySet, Sum

from webapp.accounts.choices import Role
from webapp.accounts.models import User
from webapp.core.errors import NotFound
from webapp.uploads import chunk_store
from webapp.uploads.choices import UploadState
from webapp.uploads.models import Upload, UploadPart


def upload_get(*, upload_id: str, actor: User) -> Upload:
    """Somebody else's upload is not there, except for admins."""
    upload = Upload.objects.filter(id=upload_id).first()
    if upload is None or not (upload.owner_id == actor.pk or actor.role == Role.ADMIN):
        raise NotFound(
            f"There is no upload {upload_id!r}.",
            reason="UPLOAD_NOT_FOUND",
            help_text="It may have expired and been removed. Start a new one with POST /uploads.",
        )
    return upload


def uploads_of(*, owner: User, state: str | None = None) -> QuerySet[Upload]:
    rows = Upload.objects.filter(owner=owner)
    return rows.filter(state=state) if state else rows


def missing_parts(*, upload: Upload) -> list[int]:
    present = set(UploadPart.objects.filter(upload=upload).values_list("number", flat=True))
    return [number for number in range(1, upload.part_count + 1) if number not in present]


def received_bytes(*, upload: Upload) -> int:
    return UploadPart.objects.filter(upload=upload).aggregate(sum=Sum("size_bytes"))["sum"] or 0


def reserved_bytes() -> int:
    """What open uploads may still write: announced and not yet received."""
    open_uploads = Upload.objects.filter(state=UploadState.UPLOADING)
    announced = open_uploads.aggregate(sum=Sum("size_bytes"))["sum"] or 0
    parts = UploadPart.objects.filter(upload__state=UploadState.UPLOADING)
    return int(announced - (parts.aggregate(sum=Sum("size_bytes"))["sum"] or 0))


def uploads_overdue(*, now: datetime) -> QuerySet[Upload]:
    return Upload.objects.filter(state=UploadState.UPLOADING, expires_at__lt=now)


def folders_on_disk() -> list[str]:
    """Ids of uploads that still have bytes."""
    return [name for name, _ in chunk_store.folders()]
