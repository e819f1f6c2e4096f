"""Bodies of the rollouts API, both ways."""

from typing import Any

from webapp.core.errors import InvalidInput
from webapp.rollouts.models import AnalysisRun, Rollout, RolloutTransition
from webapp.rollouts.plan import DEFAULT_LADDER, Plan, PlanProblem, plan_read, steps_to_json
from webapp.rollouts.report import rollout_body, rollout_summary
from webapp.rollouts.sample_size import seconds_for, seconds_for_plan
from webapp.rollouts.services import Intent, StartOptions

__all__ = [
    "analysis_body",
    "intent_body",
    "options_of",
    "plan_from_body",
    "rollout_body",
    "rollout_summary",
    "rollout_tag",
    "transition_body",
    "version_number",
]


def rollout_tag(rollout: Rollout) -> dict[str, Any]:
    """What the ETag is made of: moves, not the measurements of every second."""
    return {"rollout": rollout.id, "row_version": rollout.row_version}


def version_number(body: dict[str, Any]) -> int:
    if body.get("variant") is not None:
        raise _invalid([("/variant", "There are no variants yet; leave it out.")])
    number: int = body["version"]
    if number < 1:
        raise _invalid([("/version", "Give the number of the version to try, such as 4.")])
    return number


def options_of(body: dict[str, Any]) -> StartOptions:
    flags = ("allow_contract_change", "supersede")
    return StartOptions(**{name: body.get(name, False) for name in flags})


def plan_from_body(body: dict[str, Any]) -> Plan:
    try:
        return plan_read(
            _with_min_requests(body.get("steps"), body.get("min_requests")),
            body.get("guardrails"),
            bake_seconds=body.get("bake_seconds"),
        )
    except PlanProblem as problem:
        raise _invalid(problem.errors) from None


def _with_min_requests(steps: Any, least: Any) -> Any:
    """`min_requests` beside the steps is for all that do not say their own."""
    if least is None:
        return steps
    if steps is None:
        return [
            {**step, "min_requests": least if step["weight"] < 1 else 0}
            for step in steps_to_json(DEFAULT_LADDER)
        ]
    if not isinstance(steps, list):
        return steps
    rows = [step if isinstance(step, dict) else {"weight": step} for step in steps]
    return [row if row.get("weight") == 1 else {"min_requests": least, **row} for row in rows]


def _invalid(errors: list[tuple[str, str]]) -> InvalidInput:
    return InvalidInput(
        " ".join(text for _, text in errors),
        reason="INVALID_ROLLOUT",
        errors=[
            {"pointer": pointer, "detail": text, "code": "invalid"} for pointer, text in errors
        ],
    )


def intent_body(intent: Intent, *, rate: float | None) -> dict[str, Any]:
    """What a start would do, with the time each step takes at today's traffic."""
    plan = intent.plan.to_json()
    return {
        "model": intent.canary.model.name,
        "stable": {"version": intent.stable.number, "variant": None},
        "canary": {"version": intent.canary.number, "variant": None},
        "steps": [
            {**row, "seconds": seconds_for(step, rate)}
            for row, step in zip(plan["steps"], intent.plan.steps, strict=True)
        ],
        "guardrails": plan["guardrails"],
        "rate": rate,
        "seconds": seconds_for_plan(intent.plan, rate),
        "runtimes": [runtime.name for runtime in intent.runtimes],
        "load_on": [runtime.name for runtime in intent.load_on],
        "contract_changes": list(intent.contract_changes),
        "supersedes": intent.replaces.id if intent.replaces else None,
    }


def transition_body(row: RolloutTransition) -> dict[str, Any]:
    return {
        "at": row.at.isoformat(),
        "from": row.from_state or None,
        "to": row.to_state,
        "pause_reason": row.pause_reason or None,
        "step": row.step,
        "weight": row.weight,
        "generation": row.generation,
        "by": row.actor_name,
        "reason": row.reason,
    }


def analysis_body(row: AnalysisRun) -> dict[str, Any]:
    return {
        "step": row.step,
        "weight": row.weight,
        "state": row.state,
        "reason": row.reason,
        "evidence": row.findings,
        "canary": row.canary,
        "stable": row.stable,
        "started_at": row.started_at.isoformat(),
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
    }
