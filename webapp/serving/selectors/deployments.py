"""Reads of deployments: what is wanted, what is observed, and how the two differ."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment, Runtime

GONE = Q(wanted=False, state=DeploymentState.UNLOADED)


def deployment_list(
    *, model: InferenceModel | None = None, runtime: Runtime | None = None
) -> QuerySet[Deployment]:
    """Wanted, or not gone yet; newest versions first."""
    rows = Deployment.objects.exclude(GONE).select_related("runtime", "version__model")
    if model is not None:
        rows = rows.filter(version__model=model)
    if runtime is not None:
        rows = rows.filter(runtime=runtime)
    return rows.order_by("version__model__name", "-version__number", "runtime__name")


def deployment_get(*, version: ModelVersion, runtime: Runtime) -> Deployment | None:
    return (
        Deployment.objects.exclude(GONE)
        .select_related("runtime", "version__model")
        .filter(version=version, runtime=runtime)
        .first()
    )


def versions_wanted(*, runtime: Runtime, model: InferenceModel) -> list[int]:
    return list(
        Deployment.objects.filter(runtime=runtime, version__model=model, wanted=True)
        .order_by("version__number")
        .values_list("version__number", flat=True)
    )


def versions_available(*, model: InferenceModel, runtime: Runtime | None = None) -> list[int]:
    """Loaded and ready on at least one runtime (or on the one given)."""
    rows = Deployment.objects.filter(
        version__model=model, wanted=True, state=DeploymentState.AVAILABLE
    )
    if runtime is not None:
        rows = rows.filter(runtime=runtime)
    numbers = rows.order_by("version__number").values_list("version__number", flat=True)
    return list(numbers.distinct())


def runtimes_serving(*, model: InferenceModel) -> list[Runtime]:
    """Every runtime that answers for the model, as last seen."""
    loaded = Deployment.objects.filter(
        version__model=model, state__in=[DeploymentState.AVAILABLE, DeploymentState.UNLOADING]
    )
    return list(Runtime.objects.filter(pk__in=loaded.values("runtime_id")))


def models_on(*, runtime: Runtime) -> list[InferenceModel]:
    rows = Deployment.objects.exclude(GONE).filter(runtime=runtime)
    return list(InferenceModel.objects.filter(pk__in=rows.values("version__model_id")))


@dataclass(frozen=True, slots=True)
class Placement:
    """One version on one runtime: what we want, what the runtime says."""

    runtime: str
    model: str
    version: int | None  # None: a directory of the repository that was never loaded
    desired: str  # "loaded", "unloaded", or "" for what we did not put there
    observed: str  # a DeploymentState
    reason: str
    since: datetime | None
    retry_at: datetime | None
    managed: bool

    @property
    def drifted(self) -> bool:
        loaded = self.observed == DeploymentState.AVAILABLE
        return self.managed and loaded != (self.desired == "loaded")


_STATES = {
    "READY": DeploymentState.AVAILABLE,
    "LOADING": DeploymentState.LOADING,
    "UNLOADING": DeploymentState.UNLOADING,
}


def observed_state(*, state: str, reason: str) -> DeploymentState:
    """The runtime's word for a version in ours."""
    if state in _STATES:
        return _STATES[state]
    if state == "UNAVAILABLE" and reason and reason != "unloaded":
        return DeploymentState.FAILED
    return DeploymentState.UNLOADED


def placement_of(*, deployment: Deployment) -> Placement:
    return Placement(
        runtime=deployment.runtime.name,
        model=deployment.version.model.name,
        version=deployment.version.number,
        desired="loaded" if deployment.wanted else "unloaded",
        observed=deployment.state,
        reason=deployment.reason,
        since=deployment.since,
        retry_at=deployment.retry_at,
        managed=True,
    )


def placement_list(*, runtime: Runtime) -> list[Placement]:
    """Our deployments, then whatever else the runtime has in its repository or in memory."""
    ours = [placement_of(deployment=one) for one in deployment_list(runtime=runtime)]
    known = {(one.model, one.version) for one in ours}
    managed = {one.model for one in ours}
    others = [
        Placement(
            runtime=runtime.name,
            model=entry["model"],
            version=entry["version"],
            desired="",
            observed=observed_state(state=entry["state"], reason=entry["reason"]).value,
            reason=entry["reason"],
            since=None,
            retry_at=None,
            managed=False,
        )
        for entry in runtime.index
        if (entry["model"], entry["version"]) not in known
        and not (entry["model"] in managed and not _in_memory(entry))
    ]
    return ours + others


def _in_memory(entry: dict[str, str]) -> bool:
    return entry["state"] in _STATES


def foreign_models(*, runtime: Runtime) -> set[str]:
    """Loaded on the runtime, but not by us."""
    managed = {model.name for model in models_on(runtime=runtime)}
    return {entry["model"] for entry in runtime.index if _in_memory(entry)} - managed


@dataclass(frozen=True, slots=True)
class PlacementCounts:
    desired: int
    loaded: int
    drifted: int
    foreign: int


def placement_counts(*, runtime: Runtime) -> PlacementCounts:
    rows = list(
        deployment_list(runtime=runtime).values_list("version__model__name", "wanted", "state")
    )
    managed = {name for name, _, _ in rows}
    loaded = DeploymentState.AVAILABLE
    return PlacementCounts(
        desired=sum(wanted for _, wanted, _ in rows),
        loaded=sum(state == loaded for _, _, state in rows),
        drifted=sum((state == loaded) != wanted for _, wanted, state in rows),
        foreign=sum(
            entry["state"] == "READY" and entry["model"] not in managed for entry in runtime.index
        ),
    )


def placements_token(*, runtime: Runtime) -> str:
    """Another one exactly when there is something new to show of the runtime; cheap to compute."""
    rows = deployment_list(runtime=runtime).aggregate(last=Max("updated_at"), count=Count("pk"))
    parts = [
        rows["count"],
        rows["last"].isoformat() if rows["last"] else "",
        runtime.health,
        runtime.health_reason,
        runtime.http_address,
        runtime.grpc_address,
        runtime.index,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
