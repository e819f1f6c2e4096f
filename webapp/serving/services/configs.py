"""The serving config of a model: edited, composed, loaded on every runtime or on none."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel
from webapp.core.errors import (
    Conflict,
    ControlPlaneError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.selectors import jobs_open
from webapp.jobs.services import job_fence, job_request
from webapp.runtime_client.errors import RuntimeProblem, RuntimeUnreachable
from webapp.serving.choices import RuntimeHealth
from webapp.serving.config_values import ConfigProblem, ServingValues, read_values
from webapp.serving.leases import LeaseBusy, LeaseGone, held
from webapp.serving.live import tell_model
from webapp.serving.models import Runtime, ServingConfig
from webapp.serving.progress import JobProgress
from webapp.serving.selectors import (
    config_for,
    config_in_effect,
    config_versions,
    row_values,
    runtimes_serving,
    values_asked,
    values_in_force,
)
from webapp.serving.services.placing import Placer, lease_name

_LEASE_WAIT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class ConfigPreview:
    values: ServingValues
    text: str
    before: str  # the config in effect; "" when none is
    max_batch_size: int


def serving_config_preview(*, model: InferenceModel, values: dict[str, Any]) -> ConfigPreview:
    """What saving would give. Raises InvalidInput that names the fields; changes nothing."""
    try:
        read = read_values(values)
        composed = config_for(model=model, versions=_versions(model), values=read)
    except ConfigProblem as problem:
        raise _invalid(problem) from None
    return ConfigPreview(
        read, composed.text, config_in_effect(model=model), composed.max_batch_size
    )


def serving_config_set(
    *,
    model: InferenceModel,
    values: dict[str, Any],
    actor: User,
    expected_revision: int | None = None,
) -> Job:
    """Saves the settings and asks a worker to reload the model with them.

    They come into force when every runtime that answers has taken them; until then, and when one
    refuses, the ones before stay. A row changed since `expected_revision` is PreconditionFailed.
    """
    require(actor=actor, action=Action.DEPLOY)
    preview = serving_config_preview(model=model, values=values)
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=model.pk)
        row = ServingConfig.objects.filter(model=model).first()
        revision = row.revision if row is not None else 0
        if expected_revision is not None and expected_revision != revision:
            raise PreconditionFailed(
                "Somebody changed the serving config since you read it.",
                reason="ETAG_MISMATCH",
                help_text="Look at what it is now, and decide again.",
                revision=revision,
            )
        _refuse_busy(model)
        before = values_asked(model=model).to_json()
        row, _ = ServingConfig.objects.update_or_create(
            model=model,
            defaults=preview.values.to_json() | {"revision": revision + 1, "error": ""},
        )
        audit_record(
            actor=actor,
            action="serving_config.set",
            target=f"models/{model.name}/serving-config",
            before=before,
            after=preview.values.to_json(),
        )
        return job_request(
            kind=JobKind.APPLY_SERVING_CONFIG,
            subject_id=str(row.pk),
            target=_target(model),
            actor=actor,
            parameters={"model": model.name, "revision": row.revision},
        )


def serving_config_run(*, claim: Claim) -> dict[str, Any]:
    """The job: reload on every runtime that serves the model, or on none of them."""
    row = ServingConfig.objects.select_related("model").filter(pk=claim.job.subject_id).first()
    if row is None:
        raise NotFound("The model is gone.", reason="MODEL_NOT_FOUND")
    model, values, revision = row.model, row_values(row=row), row.revision
    runtimes = runtimes_serving(model=model)
    answering = [one for one in runtimes if one.health != RuntimeHealth.UNREACHABLE]
    before = values_in_force(model=model)
    progress = JobProgress(claim)
    changed: list[Placer] = []
    with ExitStack() as leases:
        try:
            placers = [_placer(runtime, model, progress, leases) for runtime in answering]
            for placer in placers:
                changed.append(placer)
                placer.reload(values)
        except (ConfigProblem, RuntimeProblem, LeaseGone) as problem:
            why = _why(changed[-1].runtime, problem)
            _roll_back(changed[:-1], before)
            _refused(row, revision, why.detail)
            raise why from None
        with transaction.atomic():
            job_fence(claim=claim)
            _in_force(row, revision, values)
    later = [one.name for one in runtimes if one not in answering]
    return {
        "model": model.name,
        "revision": revision,
        "runtimes": [one.name for one in answering],
        "when_they_answer": later,
        "note": "" if runtimes else "The model is not loaded; the next deploy uses these settings.",
    }


def serving_config_lost(*, job: Job) -> None:
    """The worker died or the job was cancelled: the settings before are in force, and the page says so."""
    row = ServingConfig.objects.select_related("model").filter(pk=job.subject_id).first()
    if row is None or row.applied_revision >= row.revision or row.error:
        return
    detail = (job.error or {}).get("detail", "The reload did not finish.")
    _refused(row, row.revision, detail, action="serving_config.lose")


def _versions(model: InferenceModel) -> list[int]:
    versions = config_versions(model=model)
    if not versions:
        raise Conflict(
            f"{model.name} has no version that could be served.",
            reason="NO_VERSION",
            help_text="Upload one first.",
        )
    return versions


def _target(model: InferenceModel) -> str:
    return f"/api/v1/models/{model.name}/serving-config"


def _refuse_busy(model: InferenceModel) -> None:
    job = jobs_open(target=_target(model)).first()
    if job is not None:
        raise Conflict(
            f"The serving config of {model.name} is just being applied ({job.id}).",
            reason="CONFIG_IN_PROGRESS",
            help_text="Wait for that operation and save again.",
            operation=job.id,
        )


def _invalid(problem: ConfigProblem) -> InvalidInput:
    return InvalidInput(
        "The settings cannot be used: "
        + "; ".join(f"{one.field}: {one.detail}" for one in problem.problems)
        + ".",
        reason="INVALID_SERVING_CONFIG",
        errors=[
            {"pointer": f"/{one.field}", "detail": one.detail, "code": "invalid"}
            for one in problem.problems
        ],
    )


def _placer(
    runtime: Runtime, model: InferenceModel, progress: JobProgress, leases: ExitStack
) -> Placer:
    progress.step("waiting for other work on this model", 0.1)
    try:
        lease = leases.enter_context(
            held(
                lease_name(runtime=runtime, model=model),
                wait_seconds=_LEASE_WAIT_SECONDS,
                check=progress.check,
            )
        )
    except LeaseBusy:
        raise Unavailable(
            f"Other work on {model.name} at {runtime.name} did not end.", reason="MODEL_BUSY"
        ) from None
    return Placer(runtime, model, lease, progress)


def _why(runtime: Runtime, problem: Exception) -> ControlPlaneError:
    stays = "The settings before stay in force."
    if isinstance(problem, RuntimeUnreachable):
        return Unavailable(
            f"{runtime.name} stopped answering: {problem.text}. {stays}",
            reason="RUNTIME_UNREACHABLE",
            help_text="Save again when the runtime answers.",
        )
    if isinstance(problem, LeaseGone):
        return Unavailable(f"This worker stalled. {stays}", reason="LEASE_LOST")
    text = problem.text.strip() if isinstance(problem, RuntimeProblem) else str(problem)
    return Conflict(
        f"{runtime.name} refused the config: {text} {stays}",
        reason="CONFIG_REFUSED",
        help_text="Change the setting the reason names and save again.",
    )


def _roll_back(placers: list[Placer], values: ServingValues | None) -> None:
    """Runtimes that took the new config get the old one back; reconcile repeats what fails here."""
    for placer in placers:
        try:
            placer.reload(values)
        except (ConfigProblem, RuntimeProblem, LeaseGone):
            continue


def _refused(
    row: ServingConfig, revision: int, why: str, *, action: str = "serving_config.refuse"
) -> None:
    """The settings before stay in force; of a row edited again meanwhile, nothing is written."""
    with transaction.atomic():
        refused = ServingConfig.objects.filter(pk=row.pk, revision=revision).update(
            error=why[:1000], updated_at=timezone.now()
        )
        if refused:
            in_force = {"revision": row.applied_revision, "values": row.applied}
            _audit(row, action, before=in_force, after={**in_force, "refused": revision}, note=why)
    tell_model(row.model)


def _in_force(row: ServingConfig, revision: int, values: ServingValues) -> None:
    ServingConfig.objects.filter(pk=row.pk).update(
        applied=values.to_json(),
        applied_revision=revision,
        error="",
        updated_at=timezone.now(),
    )
    _audit(
        row,
        "serving_config.apply",
        before={"revision": row.applied_revision, "values": row.applied},
        after={"revision": revision, "values": values.to_json()},
    )
    tell_model(row.model)


def _audit(
    row: ServingConfig,
    action: str,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
    note: str = "",
) -> None:
    audit_record(
        actor=None,
        action=action,
        target=f"models/{row.model.name}/serving-config",
        before=before,
        after=after,
        note=note,
    )
