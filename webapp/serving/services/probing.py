"""Looks at every runtime every few seconds, and gives out the work that the look calls for."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.audit.services import audit_record
from webapp.core.errors import NotFound, Unavailable
from webapp.jobs.choices import JobKind
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.selectors import jobs_open
from webapp.jobs.services import job_request
from webapp.runtime_client.errors import RuntimeUnreachable
from webapp.serving.leases import LeaseBusy, LeaseGone, held, names_held
from webapp.serving.models import Runtime
from webapp.serving.observation import Observation, observe
from webapp.serving.pictures import picture_of
from webapp.serving.progress import JobProgress, Progress, Silent
from webapp.serving.reconciler import Action, PushTable, next_actions
from webapp.serving.selectors import ModelFacts, client_for, runtime_facts
from webapp.serving.services.placing import (
    Placer,
    lease_name,
    lease_prefix,
    observation_keep,
)
from webapp.serving.services.runtimes import runtime_ensure_embedded
from webapp.serving.services.traffic_push import traffic_push

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
    observation_keep(runtime=runtime, observation=observation, skip=_busy_models(runtime))


def _busy_models(runtime: Runtime) -> frozenset[int]:
    """Models that somebody is changing on the runtime right now."""
    prefix = lease_prefix(runtime=runtime)
    return frozenset(int(name.removeprefix(prefix)) for name in names_held(prefix=prefix))


def _calls_for_work(runtime: Runtime, observation: Observation) -> bool:
    """Pushes traffic tables by the way; True when something must be loaded or unloaded."""
    owned, busy = _models_with_open_jobs(), _busy_models(runtime)
    work = False
    for facts, actions in _due(runtime, observation):
        if facts.model.name in owned or facts.model.pk in busy:
            continue
        if actions == [PushTable()]:
            traffic_push(model=facts.model, runtimes=[runtime])
        else:
            work = True
    return work


def _due(runtime: Runtime, observation: Observation) -> Iterator[tuple[ModelFacts, list[Action]]]:
    """The models that are not at rest, and what would bring them there."""
    now = timezone.now()
    for facts in runtime_facts(runtime=runtime):
        picture = picture_of(facts=facts, observation=observation, now=now)
        actions = next_actions(picture)
        if not actions and not observation.splits and _unexplained(facts):
            actions = [PushTable()]  # it will be refused, and the refusal is what is shown
        if actions:
            yield facts, actions


def _unexplained(facts: ModelFacts) -> bool:
    """A Triton has no traffic tables; that is to be said where the shares are shown."""
    arms = facts.table.arms if facts.table is not None else []
    return bool(arms) and (facts.applied is None or not facts.applied.error)


def _models_with_open_jobs() -> set[str]:
    kinds = [kind.value for kind in _OWNING_KINDS]
    parameters = jobs_open().filter(kind__in=kinds).values_list("parameters", flat=True)
    return {one.get("model", "") for one in parameters}


def reconcile_request(*, runtime: Runtime, actor: User | None) -> Job:
    """The open job when there is one already."""
    target = f"/api/v1/runtimes/{runtime.name}"
    kind = JobKind.RECONCILE_RUNTIME
    found = jobs_open(target=target).filter(kind=kind.value).first()
    if found is not None:
        return found
    with transaction.atomic():
        job = job_request(
            kind=kind,
            subject_id=str(runtime.pk),
            target=target,
            actor=actor,
            parameters={"runtime": runtime.name},
        )
        if actor is not None:  # what it does is audited as it is done
            audit_record(
                actor=actor,
                action="runtime.reconcile",
                target=f"runtimes/{runtime.name}",
                after={"operation": job.id},
            )
    return job


def runtime_reconcile(*, runtime: Runtime, progress: Progress | None = None) -> dict[str, Any]:
    """Makes observed match desired for every model of ours on the runtime.

    Models somebody else is changing are left to them. Raises Unavailable when the runtime does not
    answer.
    """
    progress = progress or Silent()
    observation = observe(client_for(runtime=runtime))
    _keep(runtime, observation)
    if not observation.answered:
        raise runtime_unreachable(runtime=runtime, text=observation.reason)
    settled, left = [], []
    due = [facts.model for facts, _ in _due(runtime, observation)]
    try:
        for done, model in enumerate(due):
            progress.step(f"looking at {model.name}", done / len(due))
            try:
                with held(lease_name(runtime=runtime, model=model)) as lease:
                    Placer(runtime, model, lease, progress).settle()
                settled.append(model.name)
            except (LeaseBusy, LeaseGone):
                left.append(model.name)
    except RuntimeUnreachable as problem:
        raise runtime_unreachable(runtime=runtime, text=problem.text) from None
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
