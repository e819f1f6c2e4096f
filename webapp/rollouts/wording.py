"""What a rollout's page says and offers: one sentence of state, buttons with their effect."""

from collections.abc import Callable
from dataclasses import dataclass

from webapp.core.templatetags.units import duration, percent, rate as rate_text
from webapp.rollouts.choices import PauseReason, RolloutState
from webapp.rollouts.models import Rollout
from webapp.rollouts.state_machine import Move, moves_in

S = RolloutState


def state_sentence(rollout: Rollout) -> str:
    return _SENTENCES[rollout.state](rollout)


def _share(rollout: Rollout) -> str:
    return f"{percent(rollout.weight)} of requests go to version {rollout.canary.number}"


def _next_share(rollout: Rollout) -> str:
    share = percent(rollout.plan.steps[rollout.step + 1].weight)
    return f"{share}, the promotion" if rollout.step + 1 == rollout.plan.last_step else share


def _place(rollout: Rollout) -> str:
    return f"Step {rollout.step + 1} of {len(rollout.steps)}"


def _paused(rollout: Rollout) -> str:
    why = {
        PauseReason.STEP_PAUSE: "the plan asks a person to go on",
        PauseReason.WAITING_FOR_TRAFFIC: "too little traffic to judge by",
        PauseReason.INCONCLUSIVE: "the measurements do not say enough",
        PauseReason.CANARY_UNAVAILABLE: "the canary is not available",
        PauseReason.METRICS_STALE: "there are no measurements",
        PauseReason.OUTSIDE_CHANGE: "the traffic was changed outside this rollout",
    }.get(PauseReason(rollout.pause_reason), "a person paused it")
    return f"Paused at step {rollout.step + 1} of {len(rollout.steps)}: {why}. {_share(rollout)}."


_SENTENCES: dict[str, Callable[[Rollout], str]] = {
    S.PENDING: lambda r: f"Version {r.canary.number} is about to be tried.",
    S.INITIALIZING: lambda r: (
        f"Loading version {r.canary.number} beside version {r.stable.number}; no traffic yet."
    ),
    S.PROGRESSING: lambda r: f"{_place(r)}: {_share(r)}. Next {_next_share(r)}.",
    S.PAUSED: _paused,
    S.PROMOTING: lambda r: f"Moving all traffic to version {r.canary.number}.",
    S.BAKING: lambda r: (
        f"All traffic is on version {r.canary.number}; version {r.stable.number} stays loaded "
        f"for {duration(max(r.current_step.hold_seconds - r.held_seconds, 0))} more."
    ),
    S.ROLLING_BACK: lambda r: f"Sending all traffic back to version {r.stable.number}.",
    S.SUCCEEDED: lambda r: (
        f"Version {r.canary.number} is the stable version. "
        f"Version {r.stable.number} is still loaded and can be undeployed."
    ),
    S.ROLLED_BACK: lambda r: f"Rolled back by itself: all traffic is on version {r.stable.number}.",
    S.ABORTED: lambda r: f"Aborted: all traffic is on version {r.stable.number}.",
    S.SUPERSEDED: lambda r: "Another rollout took its place.",
    S.FAILED: lambda r: "The rollback itself failed: look at the runtimes named below now.",
}


@dataclass(frozen=True, slots=True)
class Button:
    move: Move
    text: str
    classes: str
    icon: str

    @property
    def url_name(self) -> str:
        return f"rollouts:{self.move.value}"


def buttons_for(rollout: Rollout, *, rate: float | None) -> list[Button]:
    """What can be done now, the way forward first."""
    allowed = moves_in(rollout.state)
    order = (Move.RESUME, Move.ADVANCE, Move.PROMOTE, Move.PAUSE)
    found = [_BUTTONS[move](rollout, rate) for move in order if move in allowed]
    return [button for button in found if button is not None]


def abort_button(rollout: Rollout) -> Button | None:
    if Move.ABORT not in moves_in(rollout.state):
        return None
    verb = "Roll back" if rollout.is_promoted else "Abort"
    effect = f"all traffic to version {rollout.stable.number}"
    if rollout.generation == 0:
        effect = "nothing has moved yet"
    return Button(Move.ABORT, f"{verb} ({effect})", "button-danger button-primary", "stop")


def _about(rate: float | None) -> str:
    return f", about {rate_text(rate)}" if rate else ""


def _next_text(rollout: Rollout, rate: float | None) -> str:
    share = rollout.plan.steps[rollout.step + 1].weight
    return f"{percent(share)}{_about(rate * share if rate else None)}"


def _resume(rollout: Rollout, rate: float | None) -> Button | None:
    if rollout.pause_reason == PauseReason.STEP_PAUSE:
        return None  # going on to the next step is what it means there
    share = percent(rollout.current_step.weight)
    return Button(Move.RESUME, f"Resume at {share}", "button-primary", "play")


def _advance(rollout: Rollout, rate: float | None) -> Button | None:
    if rollout.state == S.BAKING:
        return Button(Move.ADVANCE, "End the bake now", "", "forward")
    if rollout.step + 1 >= rollout.plan.last_step:
        return None  # the next step is the promotion, which has its own button
    return Button(Move.ADVANCE, f"Go to {_next_text(rollout, rate)}", "", "forward")


def _promote(rollout: Rollout, rate: float | None) -> Button:
    text = f"Promote version {rollout.canary.number} (takes all traffic{_about(rate)})"
    return Button(Move.PROMOTE, text, "", "good")


def _pause(rollout: Rollout, rate: float | None) -> Button:
    share = percent(rollout.weight)
    return Button(
        Move.PAUSE, f"Pause (keeps {share} on version {rollout.canary.number})", "", "paused"
    )


_BUTTONS: dict[Move, Callable[[Rollout, float | None], Button | None]] = {
    Move.RESUME: _resume,
    Move.ADVANCE: _advance,
    Move.PROMOTE: _promote,
    Move.PAUSE: _pause,
}
