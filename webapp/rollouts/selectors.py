"""Reads of rollouts, and of everything around one that its next decision depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet

from webapp.catalog.inspection.subject import Tensor, tensor_of
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.validation import contract_changes
from webapp.core.errors import NotFound
from webapp.rollouts.decision import CanaryHealth
from webapp.rollouts.models import Rollout
from webapp.rollouts.state_machine import ACTIVE_STATES
from webapp.serving.choices import ArmRole, DeploymentState
from webapp.serving.models import Deployment, Runtime, ServingConfig, TrafficApplied, TrafficTable
from webapp.telemetry.models import RuntimeSample, ServingSample


def rollout_list() -> QuerySet[Rollout]:
    return Rollout.objects.select_related("model", "stable", "canary", "started_by")


def rollout_get(*, rollout_id: str, model_name: str | None = None) -> Rollout:
    rows = rollout_list().filter(id=rollout_id)
    if model_name is not None:
        rows = rows.filter(model__name=model_name)
    rollout = rows.first()
    if rollout is None:
        place = f" of model {model_name}" if model_name else ""
        raise NotFound(f"There is no rollout {rollout_id}{place}.", reason="ROLLOUT_NOT_FOUND")
    return rollout


def rollouts_active() -> QuerySet[Rollout]:
    return rollout_list().filter(state__in=ACTIVE_STATES)


def rollout_active(*, model: InferenceModel) -> Rollout | None:
    return rollouts_active().filter(model=model).first()


def stable_version(*, model: InferenceModel) -> ModelVersion | None:
    """The version that serves clients: the stable arm of the traffic table."""
    table = TrafficTable.objects.filter(model=model).first()
    for arm in table.arms if table is not None else ():
        if arm["role"] == ArmRole.STABLE:
            rows = ModelVersion.objects.select_related("model")
            return rows.filter(model=model, number=arm["version"]).first()
    return None


def serving_runtimes(*, version: ModelVersion) -> list[Runtime]:
    """Where the version is meant to run; its traffic is split there."""
    rows = Runtime.objects.filter(deployments__version=version, deployments__wanted=True)
    return list(rows.order_by("name"))


def contract_breaks(*, stable: ModelVersion, canary: ModelVersion) -> list[str]:
    """What clients of stable would notice on the canary. More outputs than before hurt nobody."""
    known = {row["name"] for row in stable.outputs}
    outputs = [row for row in canary.outputs if row["name"] in known]
    return contract_changes(
        before=(_tensors(stable.inputs), _tensors(stable.outputs)),
        after=(_tensors(canary.inputs), _tensors(outputs)),
    )


def _tensors(rows: Sequence[dict[str, Any]]) -> list[Tensor]:
    return [tensor_of(row) for row in rows]


# -- what a decision depends on -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Surroundings:
    canary: CanaryHealth
    canary_reason: str
    unconfirmed: tuple[str, ...]
    table_generation: int
    changed_outside: bool
    per_request: bool
    seen_at: datetime | None  # until when every runtime's measurements are in
    latency_allowance_ns: int


def surroundings(*, rollout: Rollout) -> Surroundings:
    runtimes = serving_runtimes(version=rollout.stable)
    health, reason = canary_health(canary=rollout.canary, runtimes=runtimes)
    table = TrafficTable.objects.filter(model=rollout.model).first()
    return Surroundings(
        canary=health,
        canary_reason=reason,
        unconfirmed=unconfirmed(table=table, runtimes=runtimes),
        table_generation=table.generation if table is not None else 0,
        changed_outside=table is not None and not _as_set(rollout, table),
        per_request=table is None or not table.unit_header,
        seen_at=_seen_at(runtimes),
        latency_allowance_ns=_queue_delay_ns(rollout.model),
    )


def canary_health(*, canary: ModelVersion, runtimes: Sequence[Runtime]) -> tuple[CanaryHealth, str]:
    """Available only where it is available on every runtime that serves stable."""
    found = {
        row.runtime_id: row
        for row in Deployment.objects.filter(version=canary, wanted=True).select_related("runtime")
    }
    loading = ""
    for runtime in runtimes:
        deployment = found.get(runtime.pk)
        if deployment is None:
            loading = loading or f"not deployed on {runtime.name}"
        elif deployment.state == DeploymentState.FAILED:
            return CanaryHealth.FAILED, f"{runtime.name}: {deployment.reason or 'load failed'}"
        elif deployment.state != DeploymentState.AVAILABLE:
            loading = loading or f"{deployment.state.lower()} on {runtime.name}"
    if loading or not runtimes:
        return CanaryHealth.LOADING, loading or "stable is not deployed on any runtime"
    return CanaryHealth.AVAILABLE, ""


def arms_at(*, rollout: Rollout, weight: float) -> list[dict[str, Any]]:
    """With all traffic the canary is the stable version; without any it has no arm."""
    if weight >= 1:
        return [_arm(rollout.canary, ArmRole.STABLE, 1.0)]
    if weight <= 0:
        return [_arm(rollout.stable, ArmRole.STABLE, 1.0)]
    return [
        _arm(rollout.stable, ArmRole.STABLE, round(1 - weight, 4)),
        _arm(rollout.canary, ArmRole.CANARY, round(weight, 4)),
    ]


def _arm(version: ModelVersion, role: ArmRole, weight: float) -> dict[str, Any]:
    return {"version": version.number, "variant": None, "role": role.value, "weight": weight}


def _as_set(rollout: Rollout, table: TrafficTable) -> bool:
    """By content: serving may have numbered the same table anew. Before the first share: stable is
    still the version that gets the traffic."""
    if rollout.generation == 0:
        return any(
            arm["version"] == rollout.stable.number and arm["role"] == ArmRole.STABLE
            for arm in table.arms
        )
    if table.generation == rollout.generation:
        return True
    return bool(table.arms == arms_at(rollout=rollout, weight=rollout.weight))


def unconfirmed(*, table: TrafficTable | None, runtimes: Sequence[Runtime]) -> tuple[str, ...]:
    """Runtimes that do not split by the newest table yet, with what they said."""
    if table is None:
        return ()
    applied = {
        row.runtime_id: row
        for row in TrafficApplied.objects.filter(model=table.model_id, runtime__in=runtimes)
    }
    waiting = []
    for runtime in runtimes:
        row = applied.get(runtime.pk)
        if row is None or row.generation < table.generation:
            error = f" ({row.error})" if row is not None and row.error else ""
            waiting.append(f"{runtime.name}{error}")
    return tuple(waiting)


def applied_weight(*, rollout: Rollout) -> float | None:
    """The canary's share on the runtime furthest behind; None before any has confirmed a table."""
    runtimes = serving_runtimes(version=rollout.stable)
    row = (
        TrafficApplied.objects.filter(model=rollout.model, runtime__in=runtimes, generation__gt=0)
        .order_by("generation")
        .first()
    )
    if row is None:
        return None
    return float(sum(arm["weight"] for arm in row.arms if arm["version"] == rollout.canary.number))


def newest_sample_id() -> int:
    newest: int | None = ServingSample.objects.aggregate(id=Max("id"))["id"]
    return newest or 0


def _seen_at(runtimes: Sequence[Runtime]) -> datetime | None:
    """The oldest of the runtimes' newest measurements: one silent runtime makes us blind."""
    newest: dict[int, datetime] = dict(
        RuntimeSample.objects.filter(seconds=1, runtime__in=runtimes)
        .values_list("runtime_id")
        .annotate(at=Max("at"))
    )
    if not runtimes or len(newest) < len(runtimes):
        return None
    return min(newest.values())


def _queue_delay_ns(model: InferenceModel) -> int:
    config = ServingConfig.objects.filter(model=model, dynamic_batching=True).first()
    return config.max_queue_delay_microseconds * 1000 if config is not None else 0
