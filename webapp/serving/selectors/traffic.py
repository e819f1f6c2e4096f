"""Reads of traffic tables: what is configured, and what each runtime has confirmed."""

from typing import Any

from webapp.catalog.models import InferenceModel
from webapp.runtime_client import types as wire
from webapp.serving.choices import ArmRole, RuntimeHealth
from webapp.serving.models import Runtime, TrafficApplied, TrafficTable
from webapp.serving.selectors.deployments import runtimes_serving


def traffic_table(*, model: InferenceModel) -> TrafficTable | None:
    """None, or a table without arms, when nothing decides: the newest version gets all requests."""
    return TrafficTable.objects.filter(model=model).first()


def weight_of(*, model: InferenceModel, version: int) -> float:
    table = traffic_table(model=model)
    arms = table.arms if table is not None else []
    return float(sum(arm["weight"] for arm in arms if arm["version"] == version))


def stable_number(*, model: InferenceModel) -> int | None:
    """The version that clients get unless a rollout's draw decides otherwise."""
    table = traffic_table(model=model)
    arms = table.arms if table is not None else []
    return next((arm["version"] for arm in arms if arm["role"] == ArmRole.STABLE), None)


def canary_version(*, model: InferenceModel) -> int | None:
    table = traffic_table(model=model)
    arms = table.arms if table is not None else []
    return next((arm["version"] for arm in arms if arm["role"] == ArmRole.CANARY), None)


def wire_table(*, table: TrafficTable, model_name: str) -> wire.TrafficTable:
    return wire.TrafficTable(
        model=model_name,
        generation=table.generation,
        salt=table.salt,
        unit_header=table.unit_header,
        arms=tuple(
            wire.TrafficArm(arm["version"], arm["role"], arm["weight"], model_name)
            for arm in table.arms
        ),
    )


def traffic_state(*, model: InferenceModel) -> dict[str, Any]:
    """The `traffic` shape without observed shares, which telemetry adds.

    `applied` of an arm is what the runtime furthest behind has confirmed, among those that answer;
    None when none of them has confirmed a table.
    """
    table = traffic_table(model=model)
    runtimes = [_on_runtime(runtime, model, table) for runtime in runtimes_serving(model=model)]
    confirmed = _furthest_behind(runtimes)
    configured = {arm["version"]: arm for arm in (table.arms if table is not None else [])}
    applied = {arm["version"]: arm for arm in confirmed or []}
    return {
        "model": model.name,
        "generation": table.generation if table is not None else 0,
        "salt": table.salt if table is not None else "",
        "unit_header": table.unit_header if table is not None else "",
        "converged": all(one["converged"] for one in runtimes),
        "arms": [
            {
                "version": version,
                "variant": arm.get("variant"),
                "role": arm["role"],
                "configured": configured[version]["weight"] if version in configured else 0.0,
                "applied": applied[version]["weight"]
                if version in applied
                else (None if confirmed is None else 0.0),
            }
            for version, arm in (applied | configured).items()
        ],
        "runtimes": runtimes,
    }


def _on_runtime(
    runtime: Runtime, model: InferenceModel, table: TrafficTable | None
) -> dict[str, Any]:
    row = TrafficApplied.objects.filter(runtime=runtime, model=model).first()
    wanted = table.generation if table is not None and table.arms else 0
    generation = row.generation if row is not None else 0
    return {
        "runtime": runtime.name,
        "health": runtime.health,
        "generation": generation,
        "arms": row.arms if row is not None else [],
        "applied_at": row.applied_at.isoformat() if row and row.applied_at else None,
        "converged": generation == wanted,
        "reason": row.error if row is not None and generation != wanted else "",
    }


def _furthest_behind(runtimes: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    answering = [
        one for one in runtimes if one["generation"] and one["health"] != RuntimeHealth.UNREACHABLE
    ]
    if not answering:
        return None
    arms: list[dict[str, Any]] = min(answering, key=lambda one: one["generation"])["arms"]
    return arms
