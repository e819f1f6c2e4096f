"""Deploying: the wish that a version runs on a runtime, and the job that fulfils it."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog.choices import UNDECIDED_STATES, Stage, VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.selectors import stage_version
from webapp.catalog.services import stage_switch
from webapp.core.errors import Conflict, ControlPlaneError
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_fence, job_heartbeat, job_request
from webapp.serving.choices import ArmRole, DeploymentState
from webapp.serving.models import Deployment, Runtime
from webapp.serving.progress import JobProgress
from webapp.serving.selectors import (
    canary_version,
    deployment_get,
    deployment_list,
    foreign_models,
    splits_traffic,
    traffic_table,
    versions_wanted,
    weight_of,
)
from webapp.serving.services.deployment_jobs import (
    deployment_of,
    deployment_refuse_busy,
    deployment_settle,
    deployment_tell,
)
from webapp.serving.services.marking import deployment_note, deployment_shown
from webapp.serving.services.runtimes import runtime_ensure_embedded
from webapp.serving.services.traffic import traffic_set
from webapp.serving.services.traffic_push import traffic_push

ALL = "all"


def deployment_request(
    *,
    version: ModelVersion,
    runtime: Runtime | None = None,
    actor: User,
    traffic: str = "",
    allow_unsplit: bool = False,
) -> Job:
    """Writes the wish down and asks a worker to fulfil it.

    `traffic` "all" gives the version all requests once it is loaded; else the first version of a
    model gets them and any other waits beside it. `allow_unsplit` accepts that a runtime without
    traffic tables sends requests to its newest version.
    """
    require(actor=actor, action=Action.DEPLOY)
    runtime = runtime or runtime_ensure_embedded()
    model = version.model
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=model.pk)
        _refuse_unfit(version, runtime)
        deployment_refuse_busy(version=version, runtime=runtime)
        if traffic == ALL:
            _refuse_during_rollout(model)
        if not (allow_unsplit or traffic == ALL):
            _refuse_unsplit(version, runtime)
        before = deployment_shown(deployment=deployment_get(version=version, runtime=runtime))
        deployment, _ = Deployment.objects.get_or_create(version=version, runtime=runtime)
        changes: dict[str, Any] = {"wanted": True, "failed_loads": 0, "retry_at": None}
        if deployment.state != DeploymentState.AVAILABLE:
            changes |= {"state": DeploymentState.PENDING, "reason": "waits for a worker"}
            if deployment.state != DeploymentState.PENDING:
                changes["since"] = timezone.now()
        deployment_note(deployment=deployment, changes=changes)
        audit_record(
            actor=actor,
            action="deployment.request",
            target=version.api_path,
            before=before,
            after=deployment_shown(deployment=deployment) | {"traffic": traffic or "as configured"},
        )
        deployment_tell(deployment=deployment)
        return job_request(
            kind=JobKind.DEPLOY_VERSION,
            subject_id=str(deployment.pk),
            target=f"/api/v1/{version.api_path}",
            actor=actor,
            parameters={
                "model": model.name,
                "version": version.number,
                "runtime": runtime.name,
                "traffic": traffic,
            },
        )


def deployment_run(*, claim: Claim) -> dict[str, Any]:
    """The job: load the version beside the others, then, if it is to, give it the traffic."""
    deployment = deployment_of(claim=claim)
    version, runtime = deployment.version, deployment.runtime
    if not deployment.wanted:
        raise Conflict(
            f"{version} was undeployed from {runtime.name} meanwhile.", reason="UNDEPLOYED"
        )
    deployment_settle(deployment=deployment, progress=JobProgress(claim))
    deployment.refresh_from_db()
    if deployment.state != DeploymentState.AVAILABLE:
        raise _not_loaded(deployment)
    job_heartbeat(claim=claim, progress=0.8, phase="setting traffic")
    # Not to be stopped any more: the version is loaded, and its share follows at once.
    with transaction.atomic():
        job_fence(claim=claim)
    given = _give_traffic(claim, version)
    outcomes = traffic_push(model=version.model)
    return {
        "model": version.model.name,
        "version": version.number,
        "runtime": runtime.name,
        "http_address": runtime.http_address,
        "grpc_address": runtime.grpc_address,
        "traffic": weight_of(model=version.model, version=version.number),
        "given_traffic": given,
        "notes": [f"{one.runtime.name}: {one.error}" for one in outcomes if one.error],
    }


def deployment_lost(*, job: Job) -> None:
    """The job ended without success outside its worker, or was cancelled: say so on the deployment.

    The wish stays; a cancelled first load is given up.
    """
    deployment = Deployment.objects.filter(pk=job.subject_id).first()
    if deployment is None or deployment.state not in (
        DeploymentState.PENDING,
        DeploymentState.LOADING,
    ):
        return
    error = job.error or {}
    if error.get("reason") != "CANCELLED":
        changes = {"reason": error.get("detail", "")[:1000]}
        deployment_note(deployment=deployment, changes=changes)
        return
    before = deployment_shown(deployment=deployment)
    deployment_note(deployment=deployment, changes={"wanted": False, "reason": ""})
    audit_record(
        actor=None,
        action="deployment.give_up",
        target=deployment.version.api_path,
        before=before,
        after=deployment_shown(deployment=deployment),
        note="the deploy was cancelled before the version was loaded",
    )


def _refuse_unfit(version: ModelVersion, runtime: Runtime) -> None:
    version.refresh_from_db(fields=["state"])
    if version.state != VersionState.READY:
        raise Conflict(
            f"{version} is {version.state}, and only READY versions can be deployed.",
            reason="VERSION_NOT_READY",
            retryable=version.state in UNDECIDED_STATES,
            help_text="Look at its checks, or restore it if it is archived.",
        )
    if not runtime.embedded and version.model.name in foreign_models(runtime=runtime):
        raise Conflict(
            f"{runtime.name} serves a model named {version.model.name} that was not deployed from "
            "here, and loading ours would replace it.",
            reason="FOREIGN_MODEL",
            help_text="Unload it there first, or register the model under another name.",
        )


def _refuse_during_rollout(model: InferenceModel) -> None:
    canary = canary_version(model=model)
    if canary is not None:
        raise Conflict(
            f"Version {canary} of {model.name} is on trial, so its traffic is not free to be moved.",
            reason="ROLLOUT_ACTIVE",
            help_text="Promote or abort the rollout first.",
        )


def _refuse_unsplit(version: ModelVersion, runtime: Runtime) -> None:
    """Without traffic tables the newest version takes all requests that name none."""
    others = [
        number
        for number in versions_wanted(runtime=runtime, model=version.model)
        if number != version.number
    ]
    if (
        others
        and version.number > max(others)
        and runtime.server_name
        and not splits_traffic(runtime=runtime)
    ):
        raise Conflict(
            f"{runtime.name} ({runtime.server_name}) has no traffic tables: version "
            f"{version.number} would at once get all requests that name no version.",
            reason="RUNTIME_WITHOUT_TRAFFIC_TABLES",
            help_text='Deploy it with "allow_unsplit": true if that is what you want.',
        )


def _not_loaded(deployment: Deployment) -> ControlPlaneError:
    version, runtime = deployment.version, deployment.runtime
    serving = [
        row.version.number
        for row in deployment_list(model=version.model, runtime=runtime)
        if row.state == DeploymentState.AVAILABLE
    ]
    numbers = ", ".join(map(str, sorted(serving)))
    untouched = {
        0: "",
        1: f" Version {numbers} serves on, untouched.",
    }.get(len(serving), f" Versions {numbers} serve on, untouched.")
    why = deployment.reason.rstrip(". \n") or "it gave no reason"
    return Conflict(
        f"{runtime.name} could not load {version}: {why}.{untouched}",
        reason="LOAD_FAILED",
        help_text=_fix_for(deployment.reason, runtime),
    )


def _fix_for(reason: str, runtime: Runtime) -> str:
    if "explicit model load" in reason:
        return "Start that server with --model-control-mode=explicit."
    if "does not find" in reason or "failed to poll" in reason:
        if runtime.embedded:
            return "Look at the runtime's log for the reason; the version's files may be gone."
        return (
            "That server must read the same model repository: mount this installation's "
            "repository directory there and start it with --model-repository pointing at it."
        )
    return (
        "Read the reason. If the config is at fault, change it under the model's serving config; if "
        "the model is, upload a new version. Undeploy this one to stop further tries."
    )


def _give_traffic(claim: Claim, version: ModelVersion) -> bool:
    """All of it, when asked to, or when the model has none yet: then this is its first version."""
    table = traffic_table(model=version.model)
    first = table is None or not table.arms
    if not first and claim.job.parameters.get("traffic") != ALL:
        return False
    if not first:
        _refuse_during_rollout(version.model)
    actor = claim.job.requested_by
    reason = "first version of the model" if first else "deployed with all traffic"
    with transaction.atomic():
        job_fence(claim=claim)
        traffic_set(
            model=version.model,
            arms=[{"version": version.number, "role": ArmRole.STABLE, "weight": 1.0}],
            actor=actor,
            reason=reason,
        )
        if stage_version(model=version.model, stage=Stage.PRODUCTION) != version:
            stage_switch(
                model=version.model,
                stage=Stage.PRODUCTION,
                version=version,
                actor=actor,
                reason=reason,
            )
    return True
