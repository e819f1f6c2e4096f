"""What deploying and undeploying have in common."""

from webapp.catalog.models import ModelVersion
from webapp.core.errors import Conflict, NotFound, Unavailable
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.selectors import jobs_open
from webapp.runtime_client.errors import RuntimeUnreachable
from webapp.serving.leases import LeaseBusy, LeaseGone, held
from webapp.serving.live import tell_model, tell_runtime
from webapp.serving.models import Deployment, Runtime
from webapp.serving.progress import JobProgress
from webapp.serving.services.placing import Placer, lease_name
from webapp.serving.services.probing import runtime_unreachable

_LEASE_WAIT_SECONDS = 900.0


def deployment_refuse_busy(*, version: ModelVersion, runtime: Runtime) -> None:
    """One job for a version on a runtime at a time: two operators do not undo each other unseen."""
    kinds = [JobKind.DEPLOY_VERSION.value, JobKind.UNDEPLOY_VERSION.value]
    for job in jobs_open(target=f"/api/v1/{version.api_path}").filter(kind__in=kinds):
        if job.parameters.get("runtime") == runtime.name:
            doing = "deployed on" if job.kind == JobKind.DEPLOY_VERSION else "undeployed from"
            by = job.requested_by.get_username() if job.requested_by is not None else "the system"
            raise Conflict(
                f"{version} is just being {doing} {runtime.name} ({job.id}, asked for by {by}).",
                reason="DEPLOYMENT_IN_PROGRESS",
                help_text=f"Wait for operation {job.id}, or cancel it.",
                operation=job.id,
            )


def deployment_settle(*, deployment: Deployment, progress: JobProgress) -> None:
    """Makes the whole model on the runtime what is wanted, one worker at a time."""
    runtime, model = deployment.runtime, deployment.version.model
    progress.step("waiting for other work on this model", 0.05)
    try:
        with held(
            lease_name(runtime=runtime, model=model),
            wait_seconds=_LEASE_WAIT_SECONDS,
            check=progress.check,
        ) as lease:
            progress.step(f"asking {runtime.name}", 0.1)
            Placer(runtime, model, lease, progress).settle()
    except LeaseBusy:
        raise Unavailable(
            f"Other work on {model.name} at {runtime.name} did not end.", reason="MODEL_BUSY"
        ) from None
    except LeaseGone:
        raise Unavailable(
            "This worker stalled, and another one took over.", reason="LEASE_LOST"
        ) from None
    except RuntimeUnreachable as problem:
        raise runtime_unreachable(runtime=runtime, text=problem.text) from None


def deployment_of(*, claim: Claim) -> Deployment:
    deployment = (
        Deployment.objects.select_related("runtime", "version__model")
        .filter(pk=claim.job.subject_id)
        .first()
    )
    if deployment is None:
        raise NotFound("The deployment is gone.", reason="DEPLOYMENT_NOT_FOUND")
    return deployment


def deployment_tell(*, deployment: Deployment) -> None:
    tell_runtime(deployment.runtime)
    tell_model(deployment.version.model)
