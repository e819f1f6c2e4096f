"""Looks at every runtime every few seconds, and gives out the work that the look calls for."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from webapp.catalog.models import InferenceModel
from webapp.core.errors import NotFound, Unavailable
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.selectors import jobs_open
from webapp.jobs.services import job_request
from webapp.runtime_client.errors import RuntimeUnreachable
from webapp.serving.leases import LeaseBusy, LeaseGone, held, is_held
from webapp.serving.models import Runtime, TrafficApplied
from webapp.serving.observation import Observation, observe
from webapp.serving.progress import JobProgress, Progress, Silent
from webapp.serving.reconciler import PushTable, next_actions
from webapp.serving.selectors import client_for, models_on, traffic_table
from webapp.serving.services.placing import (
    Placer,
    lease_name,
    model_picture,
    observation_keep,
)
from webapp.serving.services.runtimes import runtime_ensure_embedded
from webapp.serving.services.traffic import traffic_push

logger = logging.getLogger(__name__)

# Jobs that will bring a model to rest by themselves; reconciling meanwhile would only wait for them.
_OWNING_KINDS = (JobKind.DEPLOY_VERSION, JobKind.UNDEPLOY_VERSION, JobKind.APPLY_SERVING_CONFIG)


def runtime_probe(*, runtime: Runtime) -> Runtime:
    """One look, and push what needs no loading. Loads are left to a reconcile."""
    _keep(runtime, observe(client_for(runtime=runtime)))
    return runtime


def runtimes_probe() -> None:
    """All runtimes at once, so that one that does not answer delays no other."""
    runtime_ensure_embedded()
    runtimes = list(Runtime.objects.all())
    clients = [client_for(runtime=runtime) for runtime in runtimes]
    with ThreadPoolExecutor(max_workers=min(16, len(clients))) as pool:
        observations = list(pool.map(observe, clients))
    for runtime, observation in zip(runtimes, observations, strict=True):
        _keep(runtime, observation)
        if observation.answered and _calls_for_work(runtime, observation):
            reconcile_request(runtime=runtime, actor=None)


def _keep(runtime: Runtime, observation: Observation) -> None:
    busy = frozenset(
        model.pk
        for model in models_on(runtime=runtime)
        if is_held(lease_name(runtime=runtime, model=model))
    )
    observation_keep(runtime=runtime, observation=observation, skip=busy)


def _calls_for_work(runtime: Runtime, observation: Observation) -> bool:
    """Pushes traffic tables by the way; True when something must be loaded or unloaded."""
    owned = _models_with_open_jobs()
    work = False
    for model in _models_to_mind(runtime):
        if model.name in owned or is_held(lease_name(runtime=runtime, model=model)):
            continue
        picture = model_picture(runtime=runtime, model=model, observation=observation)
        actions = next_actions(picture)
        if actions == [PushTable()]:
            traffic_push(model=model, runtimes=[runtime])
        elif actions:
            work = True
        elif not observation.splits:
            _note_missing_tables(runtime, model)
    return work


def _models_to_mind(runtime: Runtime) -> list[InferenceModel]:
    """Those deployed here, and those whose table is still here."""
    tabled = TrafficApplied.objects.filter(runtime=runtime, generation__gt=0).values("model_id")
    found = {model.pk: model for model in models_on(runtime=runtime)}
    found |= {model.pk: model for model in InferenceModel.objects.filter(pk__in=tabled)}
    return list(found.values())


def _note_missing_tables(runtime: Runtime, model: InferenceModel) -> None:
    """A Triton has no traffic tables: say so once where the shares are shown."""
    table = traffic_table(model=model)
    known = TrafficApplied.objects.filter(runtime=runtime, model=model).exclude(error="")
    if table is not None and table.arms and not known.exists():
        traffic_push(model=model, runtimes=[runtime])


def _models_with_open_jobs() -> set[str]:
    kinds = [kind.value for kind in _OWNING_KINDS]
    parameters = jobs_open().filter(kind__in=kinds).values_list("parameters", flat=True)
    return {one.get("model", "") for one in parameters}


def reconcile_request(*, runtime: Runtime, actor: Any) -> Job:
    """The open job when there is one already."""
    target = f"/api/v1/runtimes/{runtime.name}"
    kind = JobKind.RECONCILE_RUNTIME
    found = jobs_open(target=target).filter(kind=kind.value).first()
    if found is not None:
        return found
    return job_request(
        kind=kind,
        subject_id=str(runtime.pk),
        target=target,
        actor=actor,
        parameters={"runtime": runtime.name},
    )


def runtime_reconcile(*, runtime: Runtime, progress: Progress | None = None) -> dict[str, Any]:
    """Makes observed match desired for every model of ours on the runtime.

    Models somebody else is changing are left to them. Raises Unavailable when the runtime does not
    answer.
    """
    progress = progress or Silent()
    settled, left = [], []
    models = _models_to_mind(runtime)
    try:
        for done, model in enumerate(models):
            progress.step(f"looking at {model.name}", done / len(models))
            try:
                with held(lease_name(runtime=runtime, model=model)) as lease:
                    Placer(runtime, model, lease, progress).settle()
                settled.append(model.name)
            except (LeaseBusy, LeaseGone):
                left.append(model.name)
    except RuntimeUnreachable as problem:
        raise runtime_unreachable(runtime=runtime, text=problem.text) from None
    if not models:
        runtime_probe(runtime=runtime)
    return {"runtime": runtime.name, "models": settled, "busy": left}


def runtime_unreachable(*, runtime: Runtime, text: str) -> Unavailable:
    return Unavailable(
        f"Runtime {runtime.name} does not answer. {text}.",
        reason="RUNTIME_UNREACHABLE",
        help_text="What is wanted is written down and is done by itself as soon as it answers. "
        "Check that the server runs and that its addresses are right.",
    )


def reconcile_run(*, claim: Claim) -> dict[str, Any]:
    """The job of `reconcile_request`."""
    runtime = Runtime.objects.filter(pk=claim.job.subject_id).first()
    if runtime is None:
        raise NotFound("The runtime is gone.", reason="RUNTIME_NOT_FOUND")
    return runtime_reconcile(runtime=runtime, progress=JobProgress(claim))
