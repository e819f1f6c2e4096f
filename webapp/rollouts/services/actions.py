"""What people may do to a rollout under way. Each is one guarded move, audited with its actor."""

import logging

from django.db import transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.core.errors import Conflict, ControlPlaneError
from webapp.rollouts.choices import PauseReason, RolloutState
from webapp.rollouts.decision import Action as Next, next_rung
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import surroundings
from webapp.rollouts.services.moves import Move, production_switch, rollout_move
from webapp.rollouts.state_machine import ALLOWED_IN, Move as Asked

logger = logging.getLogger(__name__)

_WORDS: dict[Asked, str] = {
    Asked.PAUSE: "Only a rollout on its ladder (PROGRESSING) can be paused",
    Asked.RESUME: "Only a paused rollout can be resumed",
    Asked.ADVANCE: "Only a rollout on its ladder, paused or baking can be advanced",
    Asked.PROMOTE: "Only a rollout on its ladder or paused can be promoted",
    Asked.ABORT: "Only a rollout that has not ended can be aborted",
}


def _require(rollout: Rollout, asked: Asked, actor: User) -> None:
    require(actor=actor, action=Action.ROLLOUT)
    if rollout.state not in ALLOWED_IN[asked]:
        raise Conflict(
            f"{_WORDS[asked]}; this one is {rollout.state}.",
            reason="ROLLOUT_STATE",
            help_text="See `actions` of the rollout for what can be done now.",
        )


def rollout_pause(*, rollout: Rollout, actor: User, reason: str = "") -> Rollout:
    """The canary keeps its share and stays guarded; the ladder waits for a person."""
    _require(rollout, Asked.PAUSE, actor)
    return rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.PAUSED,
            verb="pause",
            actor=actor,
            pause_reason=PauseReason.MANUAL,
            reason=reason or f"Paused by {actor.get_username()}.",
        ),
    )


def rollout_resume(*, rollout: Rollout, actor: User, reason: str = "") -> Rollout:
    """Goes on with the step it stands at, or to the next one when the plan only asked for a nod."""
    _require(rollout, Asked.RESUME, actor)
    said = reason or f"Resumed by {actor.get_username()}."
    if rollout.pause_reason == PauseReason.STEP_PAUSE:
        return _go_on(rollout, actor, said)
    return resume(rollout=rollout, actor=actor, reason=said)


def resume(*, rollout: Rollout, actor: User | None, reason: str) -> Rollout:
    """Puts the step's share back where it was taken away or changed by somebody else."""
    weight = rollout.current_step.weight
    lost = rollout.weight != weight or rollout.pause_reason == PauseReason.OUTSIDE_CHANGE
    return rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.PROGRESSING,
            verb="resume",
            actor=actor,
            reason=reason,
            weight=weight if lost else None,
            recount=True,
        ),
    )


def rollout_advance(*, rollout: Rollout, actor: User, reason: str = "") -> Rollout:
    """To the next step now, whatever time and sample are missing. While baking: to the end."""
    _require(rollout, Asked.ADVANCE, actor)
    said = reason or f"Advanced by {actor.get_username()}."
    if rollout.state == RolloutState.BAKING:
        move = Move(to=RolloutState.SUCCEEDED, verb="succeed", actor=actor, reason=said)
        return rollout_move(rollout=rollout, move=move)
    return _go_on(rollout, actor, said)


def _go_on(rollout: Rollout, actor: User, reason: str) -> Rollout:
    if next_rung(rollout.plan, rollout.step) is Next.PROMOTE:
        return promote(rollout=rollout, actor=actor, reason=reason)
    return advance(rollout=rollout, actor=actor, reason=reason)


def advance(*, rollout: Rollout, actor: User | None, reason: str) -> Rollout:
    step = rollout.step + 1
    return rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.PROGRESSING,
            verb="step",
            actor=actor,
            reason=reason,
            step=step,
            weight=rollout.plan.steps[step].weight,
        ),
    )


def rollout_promote(*, rollout: Rollout, actor: User, reason: str = "") -> Rollout:
    """All traffic to the canary now; it is the new stable, and the old one stays warm while it bakes."""
    _require(rollout, Asked.PROMOTE, actor)
    return promote(
        rollout=rollout, actor=actor, reason=reason or f"Promoted by {actor.get_username()}."
    )


def promote(*, rollout: Rollout, actor: User | None, reason: str) -> Rollout:
    move = Move(
        to=RolloutState.PROMOTING,
        verb="promote",
        actor=actor,
        reason=reason,
        step=rollout.plan.last_step,
        weight=1.0,
    )
    with transaction.atomic():
        rollout = rollout_move(rollout=rollout, move=move)
        production_switch(rollout=rollout, version=rollout.canary, move=move)
    return rollout


def rollout_abort(*, rollout: Rollout, actor: User, reason: str = "") -> Rollout:
    """All traffic back to stable. The runtimes are told by this process, right after the commit."""
    said = reason or f"Aborted by {actor.get_username()}."
    return settle_if_applied(rollout=_withdraw_surely(rollout, actor, said, tries=5))


def _withdraw_surely(rollout: Rollout, actor: User, reason: str, *, tries: int) -> Rollout:
    """The ladder may move while the person reaches for the button; they mean it all the same."""
    _require(rollout, Asked.ABORT, actor)
    try:
        return withdraw(rollout=rollout, actor=actor, reason=reason, outcome=RolloutState.ABORTED)
    except Conflict as conflict:
        if conflict.reason != "ROLLOUT_MOVED" or tries == 1:
            raise
    rollout.refresh_from_db()
    return _withdraw_surely(rollout, actor, reason, tries=tries - 1)


def withdraw(
    *, rollout: Rollout, actor: User | None, reason: str, outcome: RolloutState
) -> Rollout:
    """Starts the way back; where the canary never had traffic, that is also its end."""
    had_traffic = rollout.generation > 0
    was_promoted = rollout.is_promoted
    aborted = outcome == RolloutState.ABORTED
    move = Move(
        to=RolloutState.ROLLING_BACK,
        verb="abort" if aborted else "roll_back",
        actor=actor,
        reason=reason,
        weight=0.0 if had_traffic else None,
        outcome=outcome,
    )
    with transaction.atomic():
        rollout = rollout_move(rollout=rollout, move=move)
        if was_promoted:
            _point_back(rollout, move)
        if not had_traffic:
            rollout = settle(rollout=rollout)
    return rollout


def _point_back(rollout: Rollout, move: Move) -> None:
    """Traffic comes first: a pointer that cannot be switched back must not hold it up."""
    try:
        with transaction.atomic():
            production_switch(rollout=rollout, version=rollout.stable, move=move)
    except ControlPlaneError as problem:
        logger.error("rollout %s: production not pointed back: %s", rollout.id, problem.detail)


def settle(*, rollout: Rollout) -> Rollout:
    """The way back has been walked: the reason that began it stays the reason."""
    return rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState(rollout.outcome), verb=rollout.outcome.lower(), reason=rollout.reason
        ),
    )


def settle_if_applied(*, rollout: Rollout) -> Rollout:
    """Saves the caller of an abort from asking again. If the runtimes are slow, the tick ends it."""
    rollout.refresh_from_db()
    if rollout.state != RolloutState.ROLLING_BACK or surroundings(rollout=rollout).unconfirmed:
        return rollout
    try:
        return settle(rollout=rollout)
    except Conflict:  # the tick was faster
        rollout.refresh_from_db()
        return rollout


def supersede(*, rollout: Rollout, actor: User, by: str) -> Rollout:
    """Makes room for another rollout from the same stable version."""
    return rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.SUPERSEDED,
            verb="supersede",
            actor=actor,
            reason=f"Superseded by a rollout of version {by}.",
            weight=0.0 if rollout.generation > 0 else None,
        ),
    )
