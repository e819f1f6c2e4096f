"""What to do next with a rollout, from one snapshot of everything that matters. Pure.

`decide` is asked once a second. It never waits and changes nothing: it names one action and says
why in words that are shown to people.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from webapp.rollouts.analysis import (
    SRM_P_VALUE,
    Judgement,
    judge,
    judge_bake,
    sample_ratio_p,
)
from webapp.rollouts.choices import PauseReason, RolloutState, Verdict
from webapp.rollouts.evidence import Evidence
from webapp.rollouts.plan import Plan, Step

METRICS_HOLD_SECONDS = 30
METRICS_STEP_BACK_SECONDS = 300
STEP_BACK_ABOVE_WEIGHT = 0.10
INITIALIZE_LIMIT_SECONDS = 900
PROMOTE_LIMIT_SECONDS = 600
ROLL_BACK_LIMIT_SECONDS = 120


class CanaryHealth(StrEnum):
    AVAILABLE = "available"  # on every runtime that serves the model
    LOADING = "loading"
    FAILED = "failed"


class Action(StrEnum):
    HOLD = "hold"
    BEGIN = "begin"  # give the first step's share
    ADVANCE = "advance"
    PROMOTE = "promote"
    BAKE = "bake"
    SUCCEED = "succeed"
    PAUSE = "pause"  # keep the share
    RESUME = "resume"
    STEP_BACK = "step_back"
    WITHDRAW = "withdraw"  # share 0, and pause
    ROLL_BACK = "roll_back"
    SETTLE = "settle"  # the rollback is applied
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Snapshot:
    state: str
    plan: Plan
    step: int
    evidence: Evidence
    pause_reason: str = ""
    weight: float = 0.0  # configured now
    held_seconds: float = 0.0  # with fresh measurements and the share applied
    step_seconds: float = 0.0  # since the step began
    state_seconds: float = 0.0
    metrics_age_seconds: float | None = 0.0  # None: never measured
    canary: CanaryHealth = CanaryHealth.AVAILABLE
    canary_reason: str = ""
    canary_down_seconds: float = 0.0
    unconfirmed: tuple[str, ...] = ()  # runtimes that have not confirmed the table
    changed_outside: bool = False
    per_request: bool = True
    in_flight: int = 0
    latency_allowance_ns: int = 0

    @property
    def current(self) -> Step:
        return self.plan.steps[self.step]

    @property
    def metrics_age(self) -> float:
        """Never measured counts from the start of the step."""
        if self.metrics_age_seconds is None:
            return self.step_seconds
        return self.metrics_age_seconds


@dataclass(frozen=True, slots=True)
class Decision:
    action: Action
    reason: str
    judgement: Judgement = field(default_factory=lambda: Judgement(Verdict.WAITING, ""))
    pause_reason: PauseReason = PauseReason.NONE


def decide(snapshot: Snapshot) -> Decision:
    judgement = judgement_of(snapshot)
    action, reason, pause = _BY_STATE[snapshot.state](snapshot, judgement)
    return Decision(action, reason, judgement, pause)


def judgement_of(snapshot: Snapshot) -> Judgement:
    counts = snapshot.evidence.counts(snapshot.latency_allowance_ns)
    rails = snapshot.plan.guardrails
    if snapshot.state in {RolloutState.PROMOTING, RolloutState.BAKING}:
        return judge_bake(counts, rails)
    return judge(counts, rails, min_requests=snapshot.current.min_requests)


_Outcome = tuple[Action, str, PauseReason]


def _hold(reason: str) -> _Outcome:
    return Action.HOLD, reason, PauseReason.NONE


def _do(action: Action, reason: str) -> _Outcome:
    return action, reason, PauseReason.NONE


# -- before traffic -------------------------------------------------------------------------


def _initializing(snapshot: Snapshot, _: Judgement) -> _Outcome:
    if snapshot.changed_outside:
        return _do(
            Action.ROLL_BACK,
            "Another version became stable meanwhile, so the comparison would be with the wrong one.",
        )
    if snapshot.canary is CanaryHealth.AVAILABLE:
        first = Action.PROMOTE if snapshot.plan.last_step == 0 else Action.BEGIN
        return _do(first, "The canary is loaded.")
    if snapshot.canary is CanaryHealth.FAILED:
        return _do(
            Action.ROLL_BACK,
            f"The canary could not be loaded: {snapshot.canary_reason or 'no reason given'}.",
        )
    if snapshot.state_seconds > INITIALIZE_LIMIT_SECONDS:
        return _do(
            Action.ROLL_BACK,
            f"The canary did not load within {INITIALIZE_LIMIT_SECONDS // 60} min.",
        )
    return _hold(snapshot.canary_reason or "Loading the canary beside stable.")


# -- on the ladder --------------------------------------------------------------------------


def _progressing(snapshot: Snapshot, judgement: Judgement) -> _Outcome:
    return (
        _danger(snapshot, judgement)
        or _blind(snapshot)
        or _unfinished(snapshot, judgement)
        or _go_on(snapshot)
    )


def _danger(snapshot: Snapshot, judgement: Judgement) -> _Outcome | None:
    """What moves traffic away from the canary, in every state in which it has some."""
    if judgement.verdict is Verdict.FAIL:
        return _do(Action.ROLL_BACK, judgement.reason)
    if snapshot.weight > 0 and snapshot.canary is not CanaryHealth.AVAILABLE:
        return (
            Action.WITHDRAW,
            f"The canary stopped being available: {snapshot.canary_reason or 'no reason given'}.",
            PauseReason.CANARY_UNAVAILABLE,
        )
    blind_for = min(snapshot.metrics_age, snapshot.step_seconds)
    if blind_for > METRICS_STEP_BACK_SECONDS and snapshot.weight > STEP_BACK_ABOVE_WEIGHT:
        reason = f"No measurements for {blind_for / 60:.0f} min with {_percent(snapshot.weight)} on the canary."
        if snapshot.step == 0:
            return Action.WITHDRAW, reason, PauseReason.METRICS_STALE
        return _do(Action.STEP_BACK, reason)
    return None


def _blind(snapshot: Snapshot) -> _Outcome | None:
    if snapshot.changed_outside:
        return (
            Action.PAUSE,
            "The traffic of this model was changed outside this rollout. "
            "Resume to put the step's share back, or abort.",
            PauseReason.OUTSIDE_CHANGE,
        )
    if snapshot.unconfirmed:
        return _hold(f"Waiting for {', '.join(snapshot.unconfirmed)} to apply the share.")
    if snapshot.metrics_age > METRICS_HOLD_SECONDS:
        return _hold(f"Holding: no measurements for {snapshot.metrics_age:.0f} s.")
    return None


def _unfinished(snapshot: Snapshot, judgement: Judgement) -> _Outcome | None:
    step, limit = snapshot.current, snapshot.plan.guardrails.waiting_limit_seconds
    if judgement.verdict is Verdict.WAITING:
        if snapshot.step_seconds > step.hold_seconds + limit:
            return (
                Action.PAUSE,
                f"Too little traffic: {judgement.reason}",
                PauseReason.WAITING_FOR_TRAFFIC,
            )
        return _hold(judgement.reason)
    if snapshot.held_seconds < step.hold_seconds:
        left = step.hold_seconds - snapshot.held_seconds
        return _hold(f"Watching at {_percent(step.weight)}, {left:.0f} s left.")
    p = _split_p(snapshot)
    if p < SRM_P_VALUE:
        seen = snapshot.evidence.assignments
        return (
            Action.PAUSE,
            f"The canary got {_percent(seen.canary / seen.requests)} of {seen.requests:,} requests, "
            f"configured are {_percent(step.weight)}; by chance that happens once in {1 / max(p, 1e-9):,.0f} times.",
            PauseReason.INCONCLUSIVE,
        )
    if judgement.verdict is Verdict.INCONCLUSIVE:
        if snapshot.step_seconds > step.hold_seconds + limit:
            return Action.PAUSE, judgement.reason, PauseReason.INCONCLUSIVE
        return _hold(judgement.reason)
    return None


def _split_p(snapshot: Snapshot) -> float:
    if not snapshot.per_request:
        return 1.0  # with sticky clients the share of requests says nothing about the draw
    return sample_ratio_p(
        snapshot.evidence.assignments, snapshot.current.weight, in_flight=snapshot.in_flight
    )


def _go_on(snapshot: Snapshot) -> _Outcome:
    if snapshot.current.pause:
        return (
            Action.PAUSE,
            f"{_percent(snapshot.current.weight)} passed; the plan asks a person to go on.",
            PauseReason.STEP_PAUSE,
        )
    return _do(
        next_rung(snapshot.plan, snapshot.step), f"{_percent(snapshot.current.weight)} passed."
    )


def next_rung(plan: Plan, step: int) -> Action:
    return Action.PROMOTE if step + 1 >= plan.last_step else Action.ADVANCE


def _paused(snapshot: Snapshot, judgement: Judgement) -> _Outcome:
    if danger := _danger(snapshot, judgement):
        return danger
    if snapshot.pause_reason == PauseReason.CANARY_UNAVAILABLE:
        return _recovering(snapshot)
    if (
        snapshot.pause_reason == PauseReason.WAITING_FOR_TRAFFIC
        and judgement.verdict is not Verdict.WAITING
    ):
        return _do(Action.RESUME, "Enough requests have come meanwhile.")
    return _hold("")


def _recovering(snapshot: Snapshot) -> _Outcome:
    limit = snapshot.plan.guardrails.unavailable_limit_seconds
    if snapshot.canary is CanaryHealth.AVAILABLE:
        return _do(Action.RESUME, "The canary is available again.")
    if snapshot.canary_down_seconds > limit:
        return _do(
            Action.ROLL_BACK,
            f"The canary was unavailable for more than {limit:.0f} s: "
            f"{snapshot.canary_reason or 'no reason given'}.",
        )
    return _hold("")


# -- all traffic, and back ------------------------------------------------------------------


def _promoting(snapshot: Snapshot, judgement: Judgement) -> _Outcome:
    if lost := _lost(snapshot, judgement):
        return lost
    if not snapshot.unconfirmed:
        return _do(Action.BAKE, "All traffic is on the new version.")
    if snapshot.state_seconds > PROMOTE_LIMIT_SECONDS:
        return _do(
            Action.ROLL_BACK, f"{', '.join(snapshot.unconfirmed)} did not apply the promotion."
        )
    return _hold(f"Waiting for {', '.join(snapshot.unconfirmed)} to apply the promotion.")


def _baking(snapshot: Snapshot, judgement: Judgement) -> _Outcome:
    if lost := _lost(snapshot, judgement):
        return lost
    if snapshot.metrics_age > METRICS_HOLD_SECONDS:
        return _hold(f"Holding: no measurements for {snapshot.metrics_age:.0f} s.")
    left = snapshot.current.hold_seconds - snapshot.held_seconds
    if left > 0:
        return _hold(
            f"All traffic on the new version; the old one stays warm for {left:.0f} s more."
        )
    return _do(Action.SUCCEED, "The bake time passed without a hard stop.")


def _lost(snapshot: Snapshot, judgement: Judgement) -> _Outcome | None:
    if judgement.verdict is Verdict.FAIL:
        return _do(Action.ROLL_BACK, judgement.reason)
    if snapshot.canary is CanaryHealth.FAILED:
        return _do(
            Action.ROLL_BACK,
            f"The new version stopped being available: {snapshot.canary_reason or 'no reason given'}.",
        )
    return None


def _rolling_back(snapshot: Snapshot, _: Judgement) -> _Outcome:
    if not snapshot.unconfirmed:
        return _do(Action.SETTLE, "All traffic is on stable.")
    waiting = ", ".join(snapshot.unconfirmed)
    if snapshot.state_seconds > ROLL_BACK_LIMIT_SECONDS:
        return _do(
            Action.FAIL,
            f"{waiting} did not confirm that all traffic is on stable within "
            f"{ROLL_BACK_LIMIT_SECONDS} s. The table is sent again as soon as it answers.",
        )
    return _hold(f"Waiting for {waiting} to send all traffic to stable.")


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


_BY_STATE: dict[str, Callable[[Snapshot, Judgement], _Outcome]] = {
    RolloutState.PENDING: _initializing,
    RolloutState.INITIALIZING: _initializing,
    RolloutState.PROGRESSING: _progressing,
    RolloutState.PAUSED: _paused,
    RolloutState.PROMOTING: _promoting,
    RolloutState.BAKING: _baking,
    RolloutState.ROLLING_BACK: _rolling_back,
}
