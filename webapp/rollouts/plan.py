"""What a rollout intends: the ladder of shares and the guardrails that watch it. Pure.

`plan_read` turns what a person or a script sent into a `Plan`, or lists everything wrong with it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from webapp.rollouts.choices import Guardrail

RESOLUTION = 0.0001  # the runtime draws from 10,000 buckets
DEFAULT_MIN_REQUESTS = 300  # no error in 300 requests bounds the rate below 1% at 95% confidence
DEFAULT_HOLD_SECONDS = 600
DEFAULT_BAKE_SECONDS = 1800
MAX_STEPS = 50
MAX_SECONDS = 14 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Step:
    """One rung. The last one is the promotion: weight 1, its hold is the bake time."""

    weight: float
    hold_seconds: float
    min_requests: int = DEFAULT_MIN_REQUESTS
    pause: bool = False  # stop after this step until a person goes on


DEFAULT_LADDER: tuple[Step, ...] = (
    Step(0.01, 300),
    Step(0.05, 600),
    Step(0.10, 600),
    Step(0.25, 900),
    Step(0.50, 900),
    Step(1.00, DEFAULT_BAKE_SECONDS, 0),
)


@dataclass(frozen=True, slots=True)
class Guardrails:
    """Limits of one rollout. The false-stop budget is split over the guardrails that are on."""

    errors: bool = True
    rejections: bool = True
    client_faults: bool = True
    latency: bool = True
    false_stop_budget: float = 0.01
    slo_ms: float | None = None  # None: from the p99 of stable's first requests beside the canary
    hard_stop_errors: int = 10
    hard_stop_error_ratio: float = 5.0
    hard_stop_error_rate: float = 0.02
    hard_stop_p99_ratio: float = 2.0
    p99_min_requests: int = 1000
    waiting_limit_seconds: float = 3600
    unavailable_limit_seconds: float = 120

    def enabled(self) -> tuple[Guardrail, ...]:
        return tuple(guardrail for guardrail in Guardrail if getattr(self, guardrail.value))

    def alpha(self) -> float:
        return self.false_stop_budget / max(len(self.enabled()), 1)


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[Step, ...] = DEFAULT_LADDER
    guardrails: Guardrails = field(default_factory=Guardrails)

    @property
    def last_step(self) -> int:
        return len(self.steps) - 1

    def to_json(self) -> dict[str, Any]:
        return {"steps": steps_to_json(self.steps), "guardrails": asdict(self.guardrails)}


class PlanProblem(Exception):
    """The plan cannot be meant. `errors` are (JSON pointer, sentence) pairs."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(text for _, text in errors))
        self.errors = list(errors)


def steps_to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


def plan_of(steps: Sequence[Mapping[str, Any]], guardrails: Mapping[str, Any]) -> Plan:
    """The plan a row holds. It was checked when it was written."""
    return Plan(tuple(Step(**step) for step in steps), Guardrails(**guardrails))


def plan_read(steps: Any, guardrails: Any, *, bake_seconds: Any = None) -> Plan:
    errors: list[tuple[str, str]] = []
    ladder = DEFAULT_LADDER if steps is None else _read_steps(steps, errors)
    rails = _read_guardrails({} if guardrails is None else guardrails, errors)
    bake = None if bake_seconds is None else _number("/bake_seconds", bake_seconds, errors)
    if errors:
        raise PlanProblem(errors)
    return Plan(_with_promotion(ladder, bake), rails)


def _with_promotion(ladder: tuple[Step, ...], bake_seconds: float | None) -> tuple[Step, ...]:
    """Every ladder ends at all traffic, whether or not it was written down."""
    if ladder[-1].weight < 1:
        ladder = (*ladder, Step(1.0, _bake_after(ladder[-1]), 0))
    if bake_seconds is not None:
        ladder = (*ladder[:-1], replace(ladder[-1], hold_seconds=bake_seconds))
    return ladder


def _bake_after(step: Step) -> float:
    """Twice the last hold, as in the default ladder, so that a quick ladder ends quickly."""
    return 2 * step.hold_seconds


def _read_steps(steps: Any, errors: list[tuple[str, str]]) -> tuple[Step, ...]:
    if not isinstance(steps, list) or not steps:
        errors.append(
            ("/steps", 'Give a list of steps, such as [{"weight": 0.05, "hold_seconds": 600}].')
        )
        return ()
    if len(steps) > MAX_STEPS:
        errors.append(("/steps", f"At most {MAX_STEPS} steps."))
        return ()
    ladder = tuple(_read_step(f"/steps/{i}", step, errors) for i, step in enumerate(steps))
    for i, (before, after) in enumerate(pairwise(ladder), start=1):
        if after.weight <= before.weight:
            errors.append(
                (
                    f"/steps/{i}/weight",
                    f"Shares must rise: {after.weight:g} follows {before.weight:g}.",
                )
            )
    return ladder


def _read_step(pointer: str, raw: Any, errors: list[tuple[str, str]]) -> Step:
    given = raw if isinstance(raw, dict) else {"weight": raw}
    for name in given.keys() - {f.name for f in fields(Step)}:
        errors.append(
            (f"{pointer}/{name}", "A step has weight, hold_seconds, min_requests, pause.")
        )
    weight = _weight(f"{pointer}/weight", given.get("weight"), errors)
    final = weight == 1
    hold = given.get("hold_seconds", DEFAULT_BAKE_SECONDS if final else DEFAULT_HOLD_SECONDS)
    least = given.get("min_requests", 0 if final else DEFAULT_MIN_REQUESTS)
    pause = given.get("pause", False)
    if not isinstance(pause, bool):
        errors.append((f"{pointer}/pause", "Give true or false."))
    return Step(
        weight,
        _number(f"{pointer}/hold_seconds", hold, errors),
        int(_number(f"{pointer}/min_requests", least, errors, whole=True)),
        pause is True,
    )


def _weight(pointer: str, raw: Any, errors: list[tuple[str, str]]) -> float:
    if not _is_number(raw) or not 0 < raw <= 1:
        hint = f" Did you mean {raw / 100:g}?" if _is_number(raw) and 1 < raw <= 100 else ""
        errors.append((pointer, f"A share lies above 0 and at most at 1, got {raw!r}.{hint}"))
        return 1.0
    rounded = round(float(raw) / RESOLUTION) * RESOLUTION
    if rounded < RESOLUTION / 2:
        errors.append((pointer, f"The smallest share is {RESOLUTION:g}, got {raw!r}."))
    return round(rounded, 4)


def _number(pointer: str, raw: Any, errors: list[tuple[str, str]], *, whole: bool = False) -> float:
    if not _is_number(raw) or not 0 <= raw <= MAX_SECONDS or (whole and raw != int(raw)):
        kind = "a whole number" if whole else "a number"
        errors.append((pointer, f"Give {kind} from 0 to {MAX_SECONDS:,}, got {raw!r}."))
        return 0
    return float(raw)


def _is_number(raw: Any) -> bool:
    return isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)


# What each limit may be: (lowest, highest), the lowest itself excluded where that makes no sense.
_LIMITS: dict[str, tuple[float, float]] = {
    "false_stop_budget": (0.0001, 0.2),
    "slo_ms": (0.01, 3_600_000),
    "hard_stop_errors": (1, 1_000_000),
    "hard_stop_error_ratio": (1, 1000),
    "hard_stop_error_rate": (0.0001, 1),
    "hard_stop_p99_ratio": (1.05, 1000),
    "p99_min_requests": (100, 10_000_000),
    "waiting_limit_seconds": (1, MAX_SECONDS),
    "unavailable_limit_seconds": (0, MAX_SECONDS),
}


def _read_guardrails(raw: Any, errors: list[tuple[str, str]]) -> Guardrails:
    if not isinstance(raw, dict):
        errors.append(("/guardrails", "Give an object of limits."))
        return Guardrails()
    names = {f.name for f in fields(Guardrails)}
    values: dict[str, Any] = {}
    for name, value in raw.items():
        pointer = f"/guardrails/{name}"
        if name not in names:
            errors.append((pointer, f"No such guardrail. Known: {', '.join(sorted(names))}."))
        elif problem := _limit_problem(name, value):
            errors.append((pointer, problem))
        else:
            values[name] = value
    return Guardrails(**values)


def _limit_problem(name: str, value: Any) -> str:
    if name not in _LIMITS:
        return "" if isinstance(value, bool) else "Give true or false."
    if name == "slo_ms" and value is None:
        return ""
    low, high = _LIMITS[name]
    if not _is_number(value) or not low <= value <= high:
        return f"Give a number from {low:g} to {high:,g}, got {value!r}."
    whole = name in {"hard_stop_errors", "p99_min_requests"}
    return "Give a whole number." if whole and value != int(value) else ""
