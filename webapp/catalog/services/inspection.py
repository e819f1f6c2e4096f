"""Takes a version from quarantine to READY or REJECTED. The only writer of `checks`.

QUARANTINED → VALIDATING → READY | REJECTED. One attempt works in a folder of its own; a dead
attempt's folder is removed by the next one. The fence comes first in every transaction that decides.
"""

import logging
from pathlib import Path
from typing import Any, cast

from django.db import transaction
from django.utils import timezone

from webapp.audit.services import audit_record
from webapp.catalog import quarantine, repository_writer
from webapp.catalog.assignments import CHECK_LIMITS, assignment_for
from webapp.catalog.choices import UNDECIDED_STATES, VersionState
from webapp.catalog.inspection.names import CHECK_NAMES, NOT_REACHED, TITLES
from webapp.catalog.live import version_tell
from webapp.catalog.models import ModelVersion
from webapp.catalog.progress import Progress
from webapp.catalog.sandbox import Findings, InspectionStopped, inspect_in_child
from webapp.core.errors import ControlPlaneError
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_fence
from webapp.uploads.services import bytes_remove

logger = logging.getLogger(__name__)


class VersionRejected(ControlPlaneError):
    """Ends the operation FAILED with the check's own words."""


def version_inspect(*, claim: Claim) -> dict[str, Any] | None:
    version = (
        ModelVersion.objects.select_related("model", "upload")
        .filter(pk=claim.job.subject_id)
        .first()
    )
    if version is None:
        return None  # deleted meanwhile: nothing to check, nothing to say
    recheck = bool(claim.job.parameters.get("recheck"))
    _begin(claim, version, recheck)
    if not recheck and version.state != VersionState.VALIDATING:
        return _summary(version)  # decided by an attempt that died before it could say so
    upload_id = None if recheck else version.upload_id
    try:
        work = quarantine.prepare(version_id=version.pk, token=claim.token, upload_id=upload_id)
    except FileNotFoundError:
        return _decide(claim, version, _bytes_missing(), Path(), recheck)
    try:
        findings = _inspect(claim, version, work, recheck)
        return _decide(claim, version, findings, work, recheck)
    finally:
        quarantine.clear(version_id=version.pk)


def version_lost(*, job: Job) -> None:
    """The job ended without a decision (cancelled, or its worker died too often): so does the version."""
    version = ModelVersion.objects.select_related("model").filter(pk=job.subject_id).first()
    if version is None or version.state not in UNDECIDED_STATES or version.inspection_id != job.id:
        return
    error = cast(dict[str, str], job.error or {})
    checks = _ended_early(
        version.checks, error.get("detail", "The check ended early."), error.get("fix", "")
    )
    metadata = {
        **version.metadata,
        "checking": "",
        "rejected_because": error.get("reason", "CANCELLED"),
    }
    moved = ModelVersion.objects.filter(pk=version.pk, state__in=UNDECIDED_STATES).update(
        state=VersionState.REJECTED, checks=checks, metadata=metadata, updated_at=timezone.now()
    )
    if moved:
        _decided(version, "version.reject", before=version.state)
        _drop_bytes_on_commit(version)


def _begin(claim: Claim, version: ModelVersion, recheck: bool) -> None:
    with transaction.atomic():
        job_fence(claim=claim)
        if not recheck:
            ModelVersion.objects.filter(pk=version.pk, state__in=UNDECIDED_STATES).update(
                state=VersionState.VALIDATING, checks=[], metadata={}, updated_at=timezone.now()
            )
            _started(version)
        version.refresh_from_db()
        version_tell(version=version)


def _started(version: ModelVersion) -> None:
    before = version.state
    version.refresh_from_db()
    if version.state != before:  # not when another attempt begins anew
        audit_record(
            actor=None,
            action="version.check",
            target=version.api_path,
            before={"state": before},
            after={"state": version.state},
        )


def _inspect(claim: Claim, version: ModelVersion, work: Path, recheck: bool) -> Findings:
    progress = Progress(claim=claim, version=version, recheck=recheck)
    try:
        findings = inspect_in_child(
            work=work,
            assignment=assignment_for(version=version, recheck=recheck),
            wall_seconds=CHECK_LIMITS.wall_seconds,
            progressed=progress.update,
            should_stop=lambda: claim.cancelled or claim.lost,
        )
    except InspectionStopped:
        claim.check()
        raise
    claim.check()
    return findings


def _decide(
    claim: Claim, version: ModelVersion, findings: Findings, work: Path, recheck: bool
) -> dict[str, Any]:
    if recheck:
        _record_recheck(claim, version, findings)
    elif findings.accepted:
        _accept(claim, version, findings, work)
    else:
        _reject(claim, version, findings)
    failure = findings.failure
    if failure is not None:
        what = "no longer passes" if recheck else "was rejected:"
        raise VersionRejected(
            f"{version} {what} {TITLES[failure['name']]}: {failure['detail']}",
            reason="CHECK_FAILED" if recheck else "VERSION_REJECTED",
            help_text=failure["fix"],
        )
    return _summary(version)


def _accept(claim: Claim, version: ModelVersion, findings: Findings, work: Path) -> None:
    result = findings.result or {}
    name, number = version.model.name, version.number
    staged = repository_writer.version_stage(
        content=work / "content", model_name=name, number=number, token=claim.token
    )
    try:
        with transaction.atomic():
            job_fence(claim=claim)
            moved = ModelVersion.objects.filter(
                pk=version.pk, state=VersionState.VALIDATING
            ).update(
                state=VersionState.READY,
                backend="onnxruntime",
                config_text=result["config_text"],
                inputs=result["inputs"],
                outputs=result["outputs"],
                files=staged.files,
                checks=findings.checks,
                metadata={**result["metadata"], "sandbox": findings.confined, "checking": ""},
                size_bytes=staged.size_bytes,
                digest=staged.digest,
                published_at=timezone.now(),
                updated_at=timezone.now(),
            )
            if moved:
                # Last before the commit: a crash in between leaves a folder that no row vouches
                # for, and that the next attempt or the sweep removes.
                repository_writer.version_publish(staged=staged, model_name=name, number=number)
                _drop_bytes_on_commit(version)
                _decided(version, "version.accept", before=VersionState.VALIDATING)
            version.refresh_from_db()
    finally:
        repository_writer.version_discard(staged=staged)
    logger.info("%s published, %d bytes, digest %s", version, staged.size_bytes, staged.digest)


def _reject(claim: Claim, version: ModelVersion, findings: Findings) -> None:
    facts = (findings.result or {}).get("metadata", {})
    with transaction.atomic():
        job_fence(claim=claim)
        moved = ModelVersion.objects.filter(pk=version.pk, state=VersionState.VALIDATING).update(
            state=VersionState.REJECTED,
            checks=findings.checks,
            metadata={**facts, "sandbox": findings.confined, "checking": ""},
            updated_at=timezone.now(),
        )
        if moved:
            _drop_bytes_on_commit(version)
            _decided(version, "version.reject", before=VersionState.VALIDATING)
    logger.info("%s rejected: %s", version, findings.failure)


def _record_recheck(claim: Claim, version: ModelVersion, findings: Findings) -> None:
    with transaction.atomic():
        job_fence(claim=claim)
        before = _outcome(version)
        ModelVersion.objects.filter(pk=version.pk).update(
            checks=findings.checks,
            metadata={
                **version.metadata,
                "rechecked_at": timezone.now().isoformat(),
                "sandbox": findings.confined,
                "checking": "",
            },
            updated_at=timezone.now(),
        )
        version.refresh_from_db()
        audit_record(
            actor=None,
            action="version.recheck",
            target=version.api_path,
            before=before,
            after=_outcome(version),
        )
        version_tell(version=version)


def _decided(version: ModelVersion, action: str, *, before: str) -> None:
    version.refresh_from_db()
    audit_record(
        actor=None,
        action=action,
        target=version.api_path,
        before={"state": before},
        after=_outcome(version),
    )
    version_tell(version=version)


def _outcome(version: ModelVersion) -> dict[str, Any]:
    """The state, and of the checks only what did not pass."""
    doubts = {row["name"]: row["status"] for row in version.checks if row["status"] != "passed"}
    return {"state": version.state, "digest": version.digest, "checks": doubts or "passed"}


def _drop_bytes_on_commit(version: ModelVersion) -> None:
    upload_id, version_id = version.upload_id, version.pk

    def drop() -> None:
        quarantine.clear(version_id=version_id)
        if upload_id is not None:
            bytes_remove(upload_id=upload_id)

    transaction.on_commit(drop)


def _bytes_missing() -> Findings:
    findings = Findings()
    findings.checks = _ended_early(
        [], "The uploaded bytes are not on the disk any more.", "Upload the file again."
    )
    return findings


def _ended_early(done: list[dict[str, str]], detail: str, fix: str) -> list[dict[str, str]]:
    """The checks so far, the next one failed with the reason, the rest not reached."""
    seen = {row["name"] for row in done}
    left = [name for name in CHECK_NAMES if name not in seen]
    if not left:
        return done
    failed = {"name": left[0], "status": "failed", "detail": detail, "fix": fix}
    unreached = [
        {"name": name, "status": "skipped", "detail": f"{NOT_REACHED}.", "fix": ""}
        for name in left[1:]
    ]
    return [*done, failed, *unreached]


def _summary(version: ModelVersion) -> dict[str, Any]:
    return {"model": version.model.name, "version": version.number, "state": version.state}
