"""The only writer of uploads: start, take parts, finish, abort, sweep."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.core.errors import InvalidInput
from webapp.uploads import chunk_store, refusals
from webapp.uploads.choices import UploadState
from webapp.uploads.limits import check_open_uploads, check_room, check_size, choose_part_size
from webapp.uploads.models import Upload, UploadPart
from webapp.uploads.names import name_check
from webapp.uploads.selectors import missing_parts, uploads_overdue

KEPT_FOR = timedelta(hours=24)  # since the last part
MAX_SAMPLES_BYTES = 64 * 1024 * 1024
_ORPHAN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Details:
    """What comes along with the bytes."""

    file_name: str
    sha256: str = ""
    config_text: str = ""
    note: str = ""


def upload_check(*, size_bytes: int, part_size: int | None = None) -> int:
    """Whether an upload of this size could start now; returns the part size it would get."""
    check_size(size_bytes)
    check_room(size_bytes)
    return choose_part_size(size_bytes, part_size)


def upload_start(
    *, model_name: str, size_bytes: int, actor: User, details: Details, part_size: int | None = None
) -> Upload:
    """Reserves room for an upload that will arrive in parts, or says why there is none."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    name_check(model_name, field="model")
    check_size(size_bytes)
    chosen = choose_part_size(size_bytes, part_size)
    with transaction.atomic():
        # Serialises starts of one person, so that parallel ones cannot exceed the limit together.
        User.objects.select_for_update().get(pk=actor.pk)
        check_open_uploads(actor)
        check_room(size_bytes)
        upload = _create(model_name, size_bytes, actor, details, part_size=chosen)
        audit_record(
            actor=actor,
            action="upload.start",
            target=f"uploads/{upload.id}",
            after={"model": model_name, "file": upload.file_name, "size_bytes": size_bytes},
        )
        chunk_store.prepare(upload.id, size_bytes)
    return upload


def upload_receive(
    *,
    model_name: str,
    file: "UploadedFile[Any]",
    samples: "UploadedFile[Any] | None",
    actor: User,
    details: Details,
) -> Upload:
    """A whole file that came with one request. Its bytes are moved, not copied."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    name_check(model_name, field="model")
    size_bytes = int(file.size or 0)
    check_size(size_bytes)
    if samples is not None and (samples.size or 0) > MAX_SAMPLES_BYTES:
        raise refusals.samples_too_large(MAX_SAMPLES_BYTES)
    upload = _create(model_name, size_bytes, actor, details, part_size=0)
    try:
        chunk_store.adopt_file(chunk_store.payload_path(upload.id), file)
        if samples is not None:
            chunk_store.adopt_file(chunk_store.samples_path(upload.id), samples)
            upload.samples_name = _file_name(samples.name or "samples.json")
            upload.save(update_fields=["samples_name"])
    except BaseException:
        chunk_store.remove(upload.id)
        upload.delete()
        raise
    return upload


def upload_part(
    *, upload: Upload, number: int, source: chunk_store.Readable, sha256: str = ""
) -> UploadPart:
    """Takes one part. Sending it again is harmless: the newest bytes that arrive whole count."""
    _check_open(upload)
    if not 1 <= number <= upload.part_count:
        raise InvalidInput(
            f"There is no part {number}: this upload has parts 1 to {upload.part_count}.",
            reason="NO_SUCH_PART",
        )
    offset, length = upload.part_range(number)
    with refusals.bytes_at_hand(upload), chunk_store.exclusive(upload.id):
        _check_open(upload)  # again: it may have been completed while we waited
        known = UploadPart.objects.filter(upload=upload, number=number)
        if sha256 and (part := known.filter(sha256=sha256).first()):
            return part
        again = known.exists()
        found = _write(upload, number, source, sha256, aside=again)
        if again:
            known.delete()  # until the copy is whole, the bytes at its place are neither part
            chunk_store.take_aside(upload.id, offset=offset)
        part = UploadPart.objects.create(
            upload=upload, number=number, size_bytes=length, sha256=found
        )
        Upload.objects.filter(pk=upload.pk).update(expires_at=timezone.now() + KEPT_FOR)
    return part


def _write(
    upload: Upload, number: int, source: chunk_store.Readable, sha256: str, *, aside: bool
) -> str:
    """`aside`: a part is there already, and stays if this one turns out to be no good."""
    offset, length = upload.part_range(number)
    try:
        if aside:
            return chunk_store.write_aside(upload.id, source, length=length, expected_sha256=sha256)
        return chunk_store.write_part(
            upload.id, source, offset=offset, length=length, expected_sha256=sha256
        )
    except chunk_store.WrongLength as wrong:
        raise refusals.wrong_length(number, length, wrong) from None
    except chunk_store.WrongDigest as wrong:
        raise refusals.wrong_digest(number, sha256, wrong) from None


def upload_samples(*, upload: Upload, name: str, source: chunk_store.Readable) -> Upload:
    """Samples the version will be tried on; the last ones sent count."""
    _check_open(upload)
    with refusals.bytes_at_hand(upload), chunk_store.exclusive(upload.id):
        try:
            chunk_store.write_small(
                chunk_store.samples_path(upload.id), source, limit=MAX_SAMPLES_BYTES
            )
        except chunk_store.WrongLength:
            raise refusals.samples_too_large(MAX_SAMPLES_BYTES) from None
    upload.samples_name = _file_name(name)
    upload.save(update_fields=["samples_name", "updated_at"])
    return upload


def upload_finish(*, upload: Upload, sha256: str = "") -> Upload:
    """No part may be missing. Call in the transaction that takes the bytes over, inside
    `upload_held`. Raises Conflict when it was finished before: one caller gets the bytes."""
    missing = missing_parts(upload=upload)
    if missing:
        raise refusals.parts_missing(upload, missing)
    digest = digest_check(sha256=sha256) or upload.sha256
    moved = Upload.objects.filter(pk=upload.pk, state=UploadState.UPLOADING).update(
        state=UploadState.COMPLETED, sha256=digest, updated_at=timezone.now()
    )
    if not moved:
        upload.refresh_from_db()
        raise refusals.not_open(upload)
    upload.refresh_from_db()
    return upload


@contextmanager
def upload_held(*, upload: Upload) -> Iterator[None]:
    """No part is written meanwhile. Enter before the transaction, or a part's writer waits for us
    while we wait for it."""
    with refusals.bytes_at_hand(upload), chunk_store.exclusive(upload.id):
        yield


def upload_abort(*, upload: Upload, actor: User) -> Upload:
    """Gives the disk space back at once. Aborting twice is fine; a completed upload stays."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    with transaction.atomic():
        moved = Upload.objects.filter(pk=upload.pk, state=UploadState.UPLOADING).update(
            state=UploadState.ABORTED, updated_at=timezone.now()
        )
        upload.refresh_from_db()
        if not moved and upload.state == UploadState.COMPLETED:
            raise refusals.not_open(upload)
        if moved:
            audit_record(
                actor=actor,
                action="upload.abort",
                target=f"uploads/{upload.id}",
                before={"model": upload.model_name, "file": upload.file_name},
                after={"state": upload.state},
            )
    bytes_remove(upload_id=upload.id)
    return upload


def bytes_remove(*, upload_id: str) -> None:
    """The bytes of an upload that is over, whatever became of it."""
    chunk_store.remove(upload_id)


def uploads_sweep() -> int:
    """Ends overdue uploads and removes bytes nobody owns. Returns how many folders went."""
    now = timezone.now()
    removed = 0
    for upload in uploads_overdue(now=now)[:500]:
        if _expire(upload):
            bytes_remove(upload_id=upload.id)
            removed += 1
    owned = set(
        Upload.objects.filter(state__in=(UploadState.UPLOADING, UploadState.COMPLETED)).values_list(
            "id", flat=True
        )
    )
    old = (now - _ORPHAN_AFTER).timestamp()
    removed += chunk_store.remove_stray_files(older_than=old)
    for name, changed_at in list(chunk_store.folders()):
        if name not in owned and changed_at < old:
            bytes_remove(upload_id=name)
            removed += 1
    return removed


def _expire(upload: Upload) -> bool:
    with transaction.atomic():
        moved = Upload.objects.filter(pk=upload.pk, state=UploadState.UPLOADING).update(
            state=UploadState.EXPIRED, updated_at=timezone.now()
        )
        if moved:
            audit_record(
                actor=None,
                action="upload.expire",
                target=f"uploads/{upload.id}",
                before={"state": UploadState.UPLOADING},
                after={"state": UploadState.EXPIRED},
                note=f"{upload.file_name} for {upload.model_name}: no part came in a day",
            )
    return bool(moved)


def digest_check(*, sha256: str) -> str:
    """A SHA-256 in its only spelling, or "" for none."""
    text = sha256.strip().lower()
    if text and (len(text) != 64 or not set(text) <= set("0123456789abcdef")):
        raise InvalidInput(
            f"sha256: expected 64 hexadecimal digits, got {sha256[:80]!r}.",
            reason="BAD_DIGEST",
            help_text="Compute it with `sha256sum file`.",
        )
    return text


def _create(
    model_name: str, size_bytes: int, actor: User, details: Details, *, part_size: int
) -> Upload:
    return Upload.objects.create(
        owner=actor,
        model_name=model_name,
        file_name=_file_name(details.file_name),
        size_bytes=size_bytes,
        sha256=digest_check(sha256=details.sha256),
        part_size=part_size,
        config_text=details.config_text,
        note=details.note[:2000],
        expires_at=timezone.now() + KEPT_FOR,
    )


def _check_open(upload: Upload) -> None:
    upload.refresh_from_db(fields=["state"])
    if upload.state != UploadState.UPLOADING:
        raise refusals.not_open(upload)


def _file_name(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name[:255] or "model.onnx"
