"""How many requests a step needs, and how long that takes at today's traffic. Pure."""

import math

from webapp.rollouts.plan import Plan, Step

_Z_ONE_PERCENT = 2.3263478740408408  # one-sided 1%
_Z_POWER_90 = 1.2815515655446004


def requests_to_detect(stable_rate: float, canary_rate: float, *, stable_times: float = 19) -> int:
    """Canary requests until a canary that fails this often is told from stable, 9 times of 10.

    One-sided 1%, power 90%, with `stable_times` as many stable requests beside them.
    """
    both = (canary_rate + stable_times * stable_rate) / (1 + stable_times)
    apart = _Z_ONE_PERCENT * math.sqrt(both * (1 - both) * (1 + 1 / stable_times))
    spread = _Z_POWER_90 * math.sqrt(
        canary_rate * (1 - canary_rate) + stable_rate * (1 - stable_rate) / stable_times
    )
    return math.ceil(((apart + spread) / (canary_rate - stable_rate)) ** 2)


def seconds_for(step: Step, rate: float | None) -> float | None:
    """Hold time, or the time its minimum sample takes, whichever is longer. None: no traffic."""
    if step.min_requests == 0:
        return step.hold_seconds
    if not rate:
        return None
    return max(step.hold_seconds, step.min_requests / (rate * step.weight))


def seconds_for_plan(plan: Plan, rate: float | None) -> float | None:
    parts = [seconds_for(step, rate) for step in plan.steps]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def seconds_left(missing: int, rate: float | None, weight: float) -> float | None:
    """Until `missing` canary requests have come. None: no traffic to hope for."""
    if missing <= 0:
        return 0.0
    return missing / (rate * weight) if rate and weight else None
