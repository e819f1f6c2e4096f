"""The form that starts a rollout: presets, what was typed, and the API body they amount to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from webapp.rollouts.choices import Guardrail
from webapp.rollouts.plan import DEFAULT_LADDER, Guardrails, Step

SPARE_ROWS = 2


@dataclass(frozen=True, slots=True)
class Preset:
    key: str
    title: str
    text: str
    ladder: tuple[Step, ...]


PRESETS: Mapping[str, Preset] = {
    "careful": Preset("careful", "Careful", "an hour and a half, for anything that matters", DEFAULT_LADDER),
    "quick": Preset(
        "quick",
        "Quick",
        "a few minutes, for low risk and much traffic",
        (Step(0.05, 60, 300), Step(0.25, 60, 300), Step(0.50, 60, 300), Step(1.0, 300, 0)),
    ),
    "attended": Preset(
        "attended",
        "Attended",
        "waits for a person after each step",
        tuple(replace(step, pause=step.weight < 1) for step in DEFAULT_LADDER),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """The form as it stands: strings, so that what cannot be meant is shown as it was typed."""

    version: str
    preset: str
    rows: tuple[Mapping[str, Any], ...]  # {"weight","hold","min_requests","pause"}
    bake: str  # minutes
    guardrails: frozenset[str]
    slo_ms: str
    allow_contract_change: bool
    supersede: bool


def fresh_form(*, version: str, preset: str) -> Typed:
    chosen = PRESETS.get(preset, PRESETS["careful"])
    rows = [_row(step) for step in chosen.ladder if step.weight < 1]
    return Typed(
        version=version,
        preset=chosen.key,
        rows=_with_spare(rows),
        bake=_short(chosen.ladder[-1].hold_seconds / 60),
        guardrails=frozenset(guardrail.value for guardrail in Guardrails().enabled()),
        slo_ms="",
        allow_contract_change=False,
        supersede=False,
    )


def typed_form(data: QueryDict) -> Typed:
    columns = (data.getlist("weight"), data.getlist("hold"), data.getlist("min_requests"))
    paused = set(data.getlist("pause"))
    rows = [
        {"weight": weight, "hold": hold, "min_requests": least, "pause": str(index) in paused}
        for index, (weight, hold, least) in enumerate(zip(*columns, strict=False))
    ]
    filled = [row for row in rows if any(str(row[key]).strip() for key in ("weight", "hold"))]
    return Typed(
        version=data.get("version", ""),
        preset=data.get("preset", ""),
        rows=_with_spare(filled),
        bake=data.get("bake", ""),
        guardrails=frozenset(data.getlist("guardrail")),
        slo_ms=data.get("slo_ms", ""),
        allow_contract_change=data.get("allow_contract_change") == "on",
        supersede=data.get("supersede") == "on",
    )


def api_body(typed: Typed) -> dict[str, Any]:
    """What a script would send. Percent and minutes become shares and seconds here, nowhere else."""
    steps = [
        {
            "weight": _scaled(row["weight"], 0.01),
            "hold_seconds": _scaled(row["hold"], 60),
            "min_requests": _scaled(row["min_requests"] or "0", 1),
            "pause": row["pause"],
        }
        for row in typed.rows
        if str(row["weight"]).strip() or str(row["hold"]).strip()
    ]
    guardrails: dict[str, Any] = {
        guardrail.value: guardrail.value in typed.guardrails for guardrail in Guardrail
    }
    if typed.slo_ms.strip():
        guardrails["slo_ms"] = _scaled(typed.slo_ms, 1)
    return {
        "version": int(typed.version) if typed.version.isdecimal() else 0,  # 0 is refused by name
        # Without steps the promotion is all that is left, and that is said by name.
        "steps": steps or [{"weight": 1.0}],
        "guardrails": guardrails,
        "bake_seconds": _scaled(typed.bake or "0", 60),
        "allow_contract_change": typed.allow_contract_change,
        "supersede": typed.supersede,
    }


def said_plainly(errors: Sequence[Mapping[str, Any]]) -> list[str]:
    """`/steps/1/weight` is "Step 2, share" to a person."""
    return [f"{_place(str(error['pointer']))}{error['detail']}" for error in errors]


_COLUMNS = {"weight": "share", "hold_seconds": "hold", "min_requests": "requests", "pause": "pause"}


def _place(pointer: str) -> str:
    parts = pointer.strip("/").split("/")
    if parts[0] == "steps" and len(parts) == 3:
        return f"Step {int(parts[1]) + 1}, {_COLUMNS.get(parts[2], parts[2])}: "
    return {"bake_seconds": "Bake: ", "guardrails": f"{parts[-1]}: ", "version": "Version: "}.get(
        parts[0], ""
    )


def _row(step: Step) -> dict[str, Any]:
    return {
        "weight": _short(100 * step.weight),
        "hold": _short(step.hold_seconds / 60),
        "min_requests": str(step.min_requests),
        "pause": step.pause,
    }


def _with_spare(rows: list[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    empty = {"weight": "", "hold": "", "min_requests": "", "pause": False}
    return (*rows, *(dict(empty) for _ in range(SPARE_ROWS)))


def _short(value: float) -> str:
    return f"{value:.6g}"


def _scaled(text: Any, factor: float) -> Any:
    """A number times the factor; what is no number stays as it is, for the plan to refuse."""
    try:
        value = round(float(str(text).strip().replace(",", ".")) * factor, 9)
    except ValueError:
        return text
    return int(value) if value.is_integer() and factor == 1 else value
