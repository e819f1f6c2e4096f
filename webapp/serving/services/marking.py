"""The only writer of what is observed: health of runtimes, states of deployments."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel
from webapp.runtime_client.types import UNLOADED
from webapp.serving import hooks
from webapp.serving.choices import DeploymentState, RuntimeHealth
from webapp.serving.live import tell_model, tell_runtime
from webapp.serving.models import Deployment, Runtime, TrafficApplied
from webapp.serving.observation import Observation
from webapp.serving.selectors import observed_state

FIRST_RETRY = timedelta(seconds=10)
LONGEST_RETRY = timedelta(minutes=10)
MOST_LOADS = 5  # in a row; then a person has to ask again

_NEWS = {
    DeploymentState.AVAILABLE: "load",
    DeploymentState.UNLOADED: "unload",
    DeploymentState.FAILED: "load_failed",
}
_VERBS = {
    DeploymentState.PENDING: "wait",
    DeploymentState.LOADING: "load_begin",
    DeploymentState.AVAILABLE: "load",
    DeploymentState.FAILED: "load_fail",
    DeploymentState.UNLOADING: "unload_begin",
    DeploymentState.UNLOADED: "unload",
}
_WORDS = {
    DeploymentState.AVAILABLE: "loaded",
    DeploymentState.UNLOADED: "unloaded",
    DeploymentState.FAILED: "failed to load",
}


def retry_moment(*, failed_loads: int, now: datetime) -> datetime | None:
    """When to try again after so many failures in a row; None: not by itself."""
    if failed_loads >= MOST_LOADS:
        return None
    return now + min(FIRST_RETRY * (1 << (failed_loads - 1)), LONGEST_RETRY)


def deployment_note(*, deployment: Deployment, changes: dict[str, Any]) -> None:
    """Unguarded: for columns that only one writer has at a time."""
    Deployment.objects.filter(pk=deployment.pk).update(**changes, updated_at=timezone.now())
    deployment.refresh_from_db()


def deployment_mark(*, deployment: Deployment, state: DeploymentState, reason: str = "") -> bool:
    """Guarded: writes only over what the caller saw. True when something changed."""
    reason = reason[:1000]
    if (deployment.state, deployment.reason) == (state, reason):
        return False
    now = timezone.now()
    changes: dict[str, object] = {"state": state, "reason": reason, "updated_at": now}
    if state != deployment.state:
        changes["since"] = now
    if state == DeploymentState.UNLOADED or (
        state == DeploymentState.AVAILABLE and deployment.wanted
    ):
        changes |= {"failed_loads": 0, "retry_at": None}
    before = deployment_shown(deployment=deployment)
    moved = state != deployment.state
    with transaction.atomic():
        written = Deployment.objects.filter(
            pk=deployment.pk, state=deployment.state, reason=deployment.reason
        ).update(**changes)
        if not written:
            return False
        deployment.refresh_from_db()
        if moved:
            _audit(deployment, before, f"deployment.{_VERBS[state]}")
    if moved:
        _tell(deployment)
    return True


def unload_refused(*, deployment: Deployment, reason: str) -> None:
    """One more unload that did not work; says when the next try is."""
    failed = deployment.failed_loads + 1
    retry_at = retry_moment(failed_loads=failed, now=timezone.now())
    changes = {"failed_loads": failed, "retry_at": retry_at, "reason": reason[:1000]}
    with transaction.atomic():
        before = deployment_shown(deployment=deployment)
        deployment_note(deployment=deployment, changes=changes)
        _audit(deployment, before, "deployment.unload_fail")


def deployment_shown(*, deployment: Deployment | None) -> dict[str, Any]:
    """For the audit log; {} where there is none yet."""
    if deployment is None:
        return {}
    return {
        "runtime": deployment.runtime.name,
        "wanted": deployment.wanted,
        "state": deployment.state,
    }


def _audit(deployment: Deployment, before: dict[str, Any], action: str) -> None:
    audit_record(
        actor=None,
        action=action,
        target=deployment.version.api_path,
        before=before,
        after=deployment_shown(deployment=deployment),
        note=deployment.reason,
    )


def deployment_failed(*, deployment: Deployment, reason: str) -> None:
    """One more load that did not work; says when the next try is."""
    failed = deployment.failed_loads + 1
    retry_at = retry_moment(failed_loads=failed, now=timezone.now())
    deployment_note(deployment=deployment, changes={"failed_loads": failed, "retry_at": retry_at})
    deployment_mark(deployment=deployment, state=DeploymentState.FAILED, reason=reason)


def _tell(deployment: Deployment) -> None:
    kind = _NEWS.get(DeploymentState(deployment.state))
    if kind is not None:
        model, number = deployment.version.model, deployment.version.number
        words = _WORDS[DeploymentState(deployment.state)]
        hooks.tell(
            kind=kind,
            text=f"{model.name} v{number} {words} on {deployment.runtime.name}",
            model_name=model.name,
            runtime_name=deployment.runtime.name,
        )
    tell_runtime(deployment.runtime)
    tell_model(deployment.version.model)


def deployments_mark(
    *,
    runtime: Runtime,
    observation: Observation,
    only: InferenceModel | None = None,
    skip: frozenset[int] = frozenset(),
) -> None:
    """Writes down the index. `skip`: models somebody is changing right now, by primary key."""
    rows = Deployment.objects.filter(runtime=runtime).exclude(
        wanted=False, state=DeploymentState.UNLOADED
    )
    if only is not None:
        rows = rows.filter(version__model=only)
    rows = rows.exclude(version__model_id__in=skip)
    for row in rows.select_related("runtime", "version__model"):
        state, reason = _observed(row, observation)
        deployment_mark(deployment=row, state=state, reason=reason)


def _observed(row: Deployment, observation: Observation) -> tuple[DeploymentState, str]:
    entry = observation.entry(row.version.model.name, row.version.number)
    state = (
        observed_state(state=entry.state, reason=entry.reason)
        if entry is not None
        else DeploymentState.UNLOADED
    )
    if state in (DeploymentState.AVAILABLE, DeploymentState.LOADING, DeploymentState.UNLOADING):
        refused = not row.wanted and row.failed_loads > 0  # to unload, and it said why
        return state, row.reason if refused else ""
    if not row.wanted:
        return DeploymentState.UNLOADED, ""
    if row.state == DeploymentState.FAILED:  # our own record says more than the index does
        return DeploymentState.FAILED, row.reason
    if row.state == DeploymentState.PENDING and row.reason:
        return DeploymentState.PENDING, row.reason
    said = entry.reason if entry is not None and entry.reason != UNLOADED else ""
    return DeploymentState.PENDING, said or "not loaded yet"


def runtime_mark(*, runtime: Runtime, observation: Observation) -> None:
    """Health, server and index as seen now; what an unreachable runtime last said is kept."""
    now = timezone.now()
    reason = observation.reason[:500]
    moved = runtime.health != observation.health
    changes: dict[str, object] = {
        "health": observation.health,
        "health_reason": reason,
    }
    if moved:
        changes["health_since"] = now
    if observation.health != RuntimeHealth.UNREACHABLE:
        changes["last_seen_at"] = now
    if observation.server is not None:
        changes |= {
            "server_name": observation.server.name[:60],
            "server_version": observation.server.version[:60],
            "extensions": list(observation.server.extensions),
            "index": [
                {
                    "model": entry.model,
                    "version": entry.version,
                    "state": entry.state,
                    "reason": entry.reason,
                }
                for entry in observation.index
            ],
        }
    news = moved or any(
        name in changes and getattr(runtime, name) != changes[name]
        for name in ("health_reason", "index", "extensions")
    )
    Runtime.objects.filter(pk=runtime.pk).update(**changes)
    was = runtime.health
    runtime.refresh_from_db()
    if moved and RuntimeHealth.UNREACHABLE in (was, runtime.health):
        lost = runtime.health == RuntimeHealth.UNREACHABLE
        hooks.tell(
            kind="runtime_lost" if lost else "runtime_found",
            text=f"{runtime.name} {'stopped answering' if lost else 'answers'}",
            runtime_name=runtime.name,
        )
    if news:
        tell_runtime(runtime)


def tables_mark(*, runtime: Runtime, observation: Observation) -> None:
    """What the runtime confirms to have now, which after a restart may be less than before."""
    if not observation.splits:
        return
    for row in TrafficApplied.objects.filter(runtime=runtime).select_related("model"):
        table = observation.tables.get(row.model.name)
        generation = table.generation if table is not None else 0
        if generation < row.generation:
            TrafficApplied.objects.filter(pk=row.pk, generation=row.generation).update(
                generation=generation,
                arms=[
                    {
                        "version": arm.version,
                        "variant": None,
                        "role": arm.role,
                        "weight": arm.weight,
                    }
                    for arm in (table.arms if table is not None else ())
                ],
            )
