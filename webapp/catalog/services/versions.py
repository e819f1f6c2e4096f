"""Versions: made from an upload, rechecked, archived, restored. Checking them is in `inspection`."""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog.choices import PUBLISHED_STATES, VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.selectors import version_uses
from webapp.catalog.services.registry import model_register
from webapp.core.errors import Conflict
from webapp.jobs.choices import TERMINAL_STATES, JobKind
from webapp.jobs.models import Job
from webapp.jobs.services import job_request
from webapp.uploads.choices import UploadState
from webapp.uploads.models import Upload
from webapp.uploads.services import upload_finish, upload_held


def version_create(
    *, model: InferenceModel, upload: Upload, actor: User, sha256: str = ""
) -> tuple[ModelVersion, Job]:
    """Takes the uploaded bytes over, gives them the next number, and asks for the checks."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    with upload_held(upload=upload), transaction.atomic():
        upload = upload_finish(upload=upload, sha256=sha256)
        version = ModelVersion.objects.create(
            model=model,
            number=_next_number(model),
            config_text=upload.config_text,
            source_name=upload.file_name,
            note=upload.note,
            size_bytes=upload.size_bytes,
            created_by=actor,
            upload=upload,
        )
        job = _ask_for_checks(version, actor)
        audit_record(
            actor=actor,
            action="version.create",
            target=version.api_path,
            after={"file": upload.file_name, "size_bytes": upload.size_bytes, "note": upload.note},
        )
    return version, job


def upload_complete(*, upload: Upload, actor: User, sha256: str = "") -> tuple[ModelVersion, Job]:
    """`version_create` for an upload in parts: repeating it gives the same version and job, and a
    model nobody has registered yet is registered on the way."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    known = _made_before(upload)
    if known is not None:
        return known
    try:
        model = _model_for(upload, actor)
        return version_create(model=model, upload=upload, actor=actor, sha256=sha256)
    except Conflict:
        # A twin request was faster: same answer for both.
        if (known := _made_before(upload)) is not None:
            return known
        raise


def version_recheck(*, version: ModelVersion, actor: User) -> Job:
    """Runs the checks again on the published files; the version stays what it is."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    if version.state not in PUBLISHED_STATES:
        raise Conflict(
            f"{version} is {version.state}: its bytes are not kept.",
            reason="VERSION_NOT_PUBLISHED",
            help_text="Upload the model again; that makes a new version.",
        )
    if version.inspection is not None and version.inspection.state not in TERMINAL_STATES:
        return version.inspection
    before = version.inspection_id
    with transaction.atomic():
        job = _ask_for_checks(version, actor, recheck=True)
        _audit(version, actor, "version.validate", {"operation": before}, {"operation": job.id})
    return job


def version_update(*, version: ModelVersion, actor: User, note: str) -> ModelVersion:
    require(actor=actor, action=Action.MANAGE_MODELS)
    before, version.note = version.note, note[:2000]
    with transaction.atomic():
        version.save(update_fields=["note", "updated_at"])
        _audit(version, actor, "version.update", {"note": before}, {"note": version.note})
    return version


def version_archive(*, version: ModelVersion, actor: User) -> ModelVersion:
    """Out of sight and not deployable; the files stay, so that it can come back."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    uses = version_uses(version=version)
    if uses:
        raise Conflict(
            f"{version} is in use: {'; '.join(uses)}.",
            reason="VERSION_IN_USE",
            help_text="Undeploy it and point stages and aliases elsewhere, then archive it.",
        )
    return _switch(version, actor, VersionState.READY, VersionState.ARCHIVED, "version.archive")


def version_restore(*, version: ModelVersion, actor: User) -> ModelVersion:
    require(actor=actor, action=Action.MANAGE_MODELS)
    return _switch(version, actor, VersionState.ARCHIVED, VersionState.READY, "version.restore")


def _switch(
    version: ModelVersion, actor: User, before: VersionState, after: VersionState, action: str
) -> ModelVersion:
    with transaction.atomic():
        moved = ModelVersion.objects.filter(pk=version.pk, state=before).update(
            state=after, updated_at=timezone.now()
        )
        version.refresh_from_db()
        if not moved and version.state != after:
            raise Conflict(
                f"{version} is {version.state}, not {before}.",
                reason="VERSION_STATE",
                state=version.state,
            )
        if moved:
            _audit(version, actor, action, {"state": before}, {"state": after})
    return version


def _next_number(model: InferenceModel) -> int:
    """The row stays locked until the version is committed, so no number is given twice or skipped."""
    InferenceModel.objects.filter(pk=model.pk).update(last_version=F("last_version") + 1)
    return InferenceModel.objects.values_list("last_version", flat=True).get(pk=model.pk)


def _ask_for_checks(version: ModelVersion, actor: User, *, recheck: bool = False) -> Job:
    job = job_request(
        kind=JobKind.INSPECT_VERSION,
        subject_id=str(version.pk),
        target=f"/api/v1/{version.api_path}",
        actor=actor,
        parameters={"recheck": True} if recheck else {},
    )
    version.inspection = job
    version.save(update_fields=["inspection", "updated_at"])
    return job


def _made_before(upload: Upload) -> tuple[ModelVersion, Job] | None:
    version = (
        ModelVersion.objects.filter(upload=upload).select_related("model", "inspection").first()
    )
    if version is None or version.inspection is None:
        return None
    return version, version.inspection


def _model_for(upload: Upload, actor: User) -> InferenceModel:
    model = InferenceModel.objects.filter(name=upload.model_name).first()
    if model is not None:
        return model
    if upload.state != UploadState.UPLOADING:
        raise Conflict(f"Upload {upload.id} is {upload.state}.", reason="UPLOAD_NOT_OPEN")
    try:
        return model_register(name=upload.model_name, actor=actor)
    except Conflict:
        return InferenceModel.objects.get(name=upload.model_name)


def _audit(
    version: ModelVersion,
    actor: User,
    action: str,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    audit_record(
        actor=actor,
        action=action,
        target=version.api_path,
        before=before,
        after=after,
    )
