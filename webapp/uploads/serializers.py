"""Uploads as the API shows them."""

from typing import Any

from webapp.uploads.choices import UploadState
from webapp.uploads.models import Upload, UploadPart
from webapp.uploads.selectors import missing_parts, received_bytes


def upload_body(upload: Upload) -> dict[str, Any]:
    is_open = upload.state == UploadState.UPLOADING
    return {
        "id": upload.id,
        "model": upload.model_name,
        "filename": upload.file_name,
        "size_bytes": upload.size_bytes,
        "sha256": upload.sha256,
        "state": upload.state,
        "part_size": upload.part_size,
        "part_count": upload.part_count,
        "received_bytes": _received(upload),
        "missing_parts": missing_parts(upload=upload) if is_open else [],
        # One part that is there, so that a client can tell whether it holds the same file.
        "proof": _proof(upload) if is_open else None,
        "samples": upload.samples_name,
        "note": upload.note,
        "created_at": upload.created_at.isoformat(),
        "expires_at": upload.expires_at.isoformat(),
    }


def _received(upload: Upload) -> int:
    if upload.state == UploadState.UPLOADING:
        return received_bytes(upload=upload)
    return upload.size_bytes if upload.state == UploadState.COMPLETED else 0


def _proof(upload: Upload) -> dict[str, Any] | None:
    part = UploadPart.objects.filter(upload=upload).first()
    return part_body(part) if part is not None else None


def part_body(part: UploadPart) -> dict[str, Any]:
    return {"number": part.number, "size_bytes": part.size_bytes, "sha256": part.sha256}
