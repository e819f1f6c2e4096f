"""Undeploying: the wish taken back, and what must not be taken away."""

import time
from typing import Any

from django.db import transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.errors import Conflict, Unavailable
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_request
from webapp.serving import hooks
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment, Runtime
from webapp.serving.progress import JobProgress
from webapp.serving.selectors import (
    canary_version,
    deployment_list,
    weight_of,
)
from webapp.serving.services.deployment_jobs import (
    deployment_of,
    deployment_refuse_busy,
    deployment_settle,
    deployment_tell,
)
from webapp.serving.services.marking import deployment_note, deployment_shown
from webapp.serving.services.traffic import traffic_clear

_UNLOAD_WAIT_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.1


def deployment_remove(
    *,
    version: ModelVersion,
    runtime: Runtime | None = None,
    actor: User,
    out_of_service: bool = False,
) -> Job:
    """Takes the wish back and asks a worker to unload.

    A version with traffic stays, unless it is the model's last one and `out_of_service` says that
    requests to the model are to be refused from now on.
    """
    require(actor=actor, action=Action.DEPLOY)
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=version.model_id)
        deployment = _deployed(version, runtime)
        runtime = deployment.runtime
        deployment_refuse_busy(version=version, runtime=runtime)
        last = _refuse_needed(deployment, out_of_service)
        before = deployment_shown(deployment=deployment)
        deployment_note(
            deployment=deployment,
            changes={"wanted": False, "failed_loads": 0, "retry_at": None},
        )
        if last:
            traffic_clear(model=version.model, actor=actor, reason="the model goes out of service")
        audit_record(
            actor=actor,
            action="deployment.remove",
            target=version.api_path,
            before=before,
            after=deployment_shown(deployment=deployment) | {"out_of_service": last},
        )
        deployment_tell(deployment=deployment)
        return job_request(
            kind=JobKind.UNDEPLOY_VERSION,
            subject_id=str(deployment.pk),
            target=f"/api/v1/{version.api_path}",
            actor=actor,
            parameters={
                "model": version.model.name,
                "version": version.number,
                "runtime": runtime.name,
            },
        )


def undeployment_run(*, claim: Claim) -> dict[str, Any]:
    """The job: unload, and wait until requests in flight are answered."""
    deployment = deployment_of(claim=claim)
    progress = JobProgress(claim)
    if deployment.wanted:
        raise Conflict(f"{deployment.version} was deployed again meanwhile.", reason="DEPLOYED")
    deadline = time.monotonic() + _UNLOAD_WAIT_SECONDS
    while True:
        deployment_settle(deployment=deployment, progress=progress)
        deployment.refresh_from_db()
        if deployment.state == DeploymentState.UNLOADED:
            break
        if time.monotonic() > deadline or deployment.failed_loads:
            raise Unavailable(
                f"{deployment.version} is still on {deployment.runtime.name}: "
                f"{deployment.reason or 'it has requests in flight'}.",
                reason="UNLOAD_UNFINISHED",
                help_text="It goes by itself when the last request is answered.",
            )
        progress.step("finishing requests in flight", 0.7)
        time.sleep(_LOOK_AGAIN_SECONDS)
    return {
        "model": deployment.version.model.name,
        "version": deployment.version.number,
        "runtime": deployment.runtime.name,
    }


def _deployed(version: ModelVersion, runtime: Runtime | None) -> Deployment:
    rows = deployment_list(model=version.model).filter(version=version, wanted=True)
    if runtime is not None:
        rows = rows.filter(runtime=runtime)
    found = list(rows)
    if not found:
        where = f" on {runtime.name}" if runtime is not None else ""
        raise Conflict(f"{version} is not deployed{where}.", reason="NOT_DEPLOYED")
    if len(found) > 1:
        names = ", ".join(row.runtime.name for row in found)
        raise Conflict(
            f"{version} is deployed on several runtimes: {names}.",
            reason="RUNTIME_NEEDED",
            help_text='Say which one: {"runtime": "…"}.',
        )
    return found[0]


def _refuse_needed(deployment: Deployment, out_of_service: bool) -> bool:
    """True when this takes the model out of service."""
    version = deployment.version
    objection = hooks.objection(version)
    if objection:
        raise Conflict(
            f"{version} cannot be undeployed: {objection.rstrip('.')}.", reason="VERSION_IN_USE"
        )
    weight = weight_of(model=version.model, version=version.number)
    canary = canary_version(model=version.model) == version.number
    if not weight and not canary:
        return False
    elsewhere = deployment_list(model=version.model).filter(wanted=True).exclude(pk=deployment.pk)
    here = elsewhere.filter(runtime=deployment.runtime)
    if not here.exists() and elsewhere.filter(version=version).exists():
        return False  # this runtime stops serving the model, others go on
    if not elsewhere.exists() and out_of_service:
        return True
    raise Conflict(
        f"{version} has {weight * 100:g}% of the traffic."
        if weight
        else f"{version} is the canary of a rollout.",
        reason="VERSION_HAS_TRAFFIC",
        help_text="Promote or abort the rollout first."
        if canary or canary_version(model=version.model)
        else (
            "Move its traffic to another version first."
            if elsewhere.exists()
            else "It is the model's only version. To refuse all requests to the model from now on, "
            'send {"out_of_service": true}.'
        ),
    )
