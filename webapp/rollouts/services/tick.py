"""Once a second for every active rollout: take in what was measured, decide, move.

Everything one turn does to a rollout is one transaction over its locked row. Two workers at once
do the work of one, and a worker that is killed has done a whole turn or nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from webapp.core.errors import ControlPlaneError
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.decision import Action, CanaryHealth, Decision, decide
from webapp.rollouts.evidence import Rules, fold
from webapp.rollouts.live import rollout_publish
from webapp.rollouts.models import EvidencePoint, Rollout
from webapp.rollouts.selectors import Surroundings, surroundings
from webapp.rollouts.services import actions
from webapp.rollouts.services.moves import Move, rollout_move
from webapp.rollouts.services.reading import reading_of
from webapp.rollouts.snapshot import snapshot_of
from webapp.rollouts.state_machine import ACTIVE_STATES, EXPOSED_STATES

logger = logging.getLogger(__name__)

# A turn that comes late was not watched in between, so it adds no more than this to the hold time.
LONGEST_TURN_SECONDS = 5.0
WATCHED_WITHIN_SECONDS = 5.0
_WATCHED_STATES = frozenset({RolloutState.PROGRESSING, RolloutState.BAKING})
_POINTS_KEPT = 300
_POINT_EVERY = timedelta(seconds=2)


def rollouts_tick() -> int:
    """How many rollouts had their turn. One that cannot be judged does not hold up the others."""
    done = 0
    for rollout_id in Rollout.objects.filter(state__in=ACTIVE_STATES).values_list("id", flat=True):
        try:
            done += rollout_tick(rollout_id=rollout_id)
        except ControlPlaneError as problem:
            _held_up(rollout_id, problem)
        except Exception:
            logger.exception("rollout %s: its turn failed", rollout_id)
    return done


def _held_up(rollout_id: str, problem: ControlPlaneError) -> None:
    """A move was due and could not be made; the next turn tries again, and people see why."""
    logger.warning("rollout %s held up: %s", rollout_id, problem.detail)
    if problem.reason != "ROLLOUT_MOVED":
        Rollout.objects.filter(id=rollout_id).update(reason=f"Held up: {problem.detail}"[:500])


def rollout_tick(*, rollout_id: str) -> bool:
    now = timezone.now()
    with transaction.atomic():
        rollout = (
            Rollout.objects.select_for_update(of=("self",))
            .select_related("model", "stable", "canary", "started_by")
            .filter(id=rollout_id, state__in=ACTIVE_STATES)
            .first()
        )
        if rollout is None:
            return False
        before = _Seen(rollout.sample_cursor, rollout.ticked_at)
        around = surroundings(rollout=rollout)
        _take_in(rollout, around, now)
        decision = decide(snapshot_of(rollout=rollout, now=now, around=around))
        _conclude(rollout, decision)
        if not _keep(rollout, before, now):
            return False
        _draw(rollout, decision, now)
        _APPLY[decision.action](rollout, decision)
        if decision.action is Action.HOLD:
            rollout_publish(rollout=rollout)
    return True


# -- taking in ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the row said before this turn; a row that says otherwise was faster."""

    cursor: int
    ticked_at: datetime | None


def _take_in(rollout: Rollout, around: Surroundings, now: datetime) -> None:
    if rollout.generation and not around.changed_outside:
        _follow_generation(rollout, around)
    if not around.unconfirmed and rollout.generation and rollout.applied_at is None:
        rollout.applied_at = now
    _fold(rollout, around)
    rollout.held_seconds += _watched_seconds(rollout, around, now)
    rollout.ticked_at = now
    down = around.canary is not CanaryHealth.AVAILABLE and rollout.state in EXPOSED_STATES
    rollout.canary_down_since = (rollout.canary_down_since or now) if down else None


def _conclude(rollout: Rollout, decision: Decision) -> None:
    """For people to see; not a move, so nobody's ETag changes."""
    if rollout.generation:
        rollout.verdict = decision.judgement.verdict
    if decision.action is Action.HOLD and decision.reason:
        rollout.reason = decision.reason[:500]


_KEPT = (
    "evidence", "generation", "weights", "sample_cursor", "measured_at", "in_flight",
    "held_seconds", "ticked_at", "applied_at", "canary_down_since", "verdict", "reason",
)  # fmt: skip


def _keep(rollout: Rollout, before: _Seen, now: datetime) -> bool:
    """False: another turn was faster and took these measurements in already."""
    kept = {name: getattr(rollout, name) for name in _KEPT}
    return bool(
        Rollout.objects.filter(
            id=rollout.id,
            row_version=rollout.row_version,
            sample_cursor=before.cursor,
            ticked_at=before.ticked_at,
        ).update(**kept, updated_at=now)
    )


def _follow_generation(rollout: Rollout, around: Surroundings) -> None:
    """Serving numbers a table anew when a runtime knew a later one; the shares are the same."""
    if around.table_generation != rollout.generation:
        rollout.generation = around.table_generation
        rollout.weights = {**rollout.weights, str(around.table_generation): rollout.weight}


def _fold(rollout: Rollout, around: Surroundings) -> None:
    if rollout.generation == 0 or rollout.state not in EXPOSED_STATES:
        return
    reading = reading_of(rollout=rollout)
    if reading is None:
        return
    rules = Rules(
        guardrails=rollout.plan.guardrails,
        per_request=around.per_request,
        latency_allowance_ns=around.latency_allowance_ns,
    )
    rollout.evidence = fold(rollout.learned, reading.moments, rules).to_json()
    rollout.sample_cursor = reading.cursor
    rollout.measured_at = reading.measured_at
    rollout.in_flight = reading.in_flight


def _watched_seconds(rollout: Rollout, around: Surroundings, now: datetime) -> float:
    """Hold time passes only while the share is applied everywhere and measurements come in."""
    if rollout.state not in _WATCHED_STATES or rollout.applied_at is None:
        return 0.0
    if rollout.ticked_at is None or around.seen_at is None or around.changed_outside:
        return 0.0
    if (now - around.seen_at).total_seconds() > WATCHED_WITHIN_SECONDS:
        return 0.0
    since = max(rollout.ticked_at, rollout.applied_at)
    return min(max((now - since).total_seconds(), 0.0), LONGEST_TURN_SECONDS)


def _draw(rollout: Rollout, decision: Decision, now: datetime) -> None:
    """A point of the evidence chart; rarer the longer the rollout lasts, so their number is bounded."""
    if rollout.state not in EXPOSED_STATES:
        return
    newest = EvidencePoint.objects.filter(rollout=rollout).order_by("-at").first()
    spacing = max(_POINT_EVERY, (now - rollout.created_at) / _POINTS_KEPT)
    if newest is None or now - newest.at >= spacing or decision.action is not Action.HOLD:
        EvidencePoint.objects.create(
            rollout=rollout,
            at=now,
            step=rollout.step,
            values={f.guardrail.value: round(f.progress, 4) for f in decision.judgement.findings},
            canary_requests=rollout.learned.total.canary.requests,
        )


# -- carrying out ---------------------------------------------------------------------------


def _hold(rollout: Rollout, decision: Decision) -> None:
    pass


def _begin(rollout: Rollout, decision: Decision) -> None:
    rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.PROGRESSING,
            verb="step",
            reason=decision.reason,
            step=0,
            weight=rollout.plan.steps[0].weight,
        ),
    )


def _advance(rollout: Rollout, decision: Decision) -> None:
    actions.advance(rollout=rollout, actor=None, reason=decision.reason)


def _promote(rollout: Rollout, decision: Decision) -> None:
    actions.promote(rollout=rollout, actor=None, reason=decision.reason)


def _bake(rollout: Rollout, decision: Decision) -> None:
    _move(rollout, decision, RolloutState.BAKING, "bake")


def _succeed(rollout: Rollout, decision: Decision) -> None:
    _move(rollout, decision, RolloutState.SUCCEEDED, "succeed")


def _pause(rollout: Rollout, decision: Decision) -> None:
    _move(rollout, decision, RolloutState.PAUSED, "pause")


def _resume(rollout: Rollout, decision: Decision) -> None:
    actions.resume(rollout=rollout, actor=None, reason=decision.reason)


def _step_back(rollout: Rollout, decision: Decision) -> None:
    step = rollout.step - 1
    rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState(rollout.state),
            verb="step_back",
            reason=decision.reason,
            pause_reason=decision.pause_reason,
            step=step,
            weight=rollout.plan.steps[step].weight,
        ),
    )


def _withdraw(rollout: Rollout, decision: Decision) -> None:
    rollout_move(
        rollout=rollout,
        move=Move(
            to=RolloutState.PAUSED,
            verb="pause",
            reason=decision.reason,
            pause_reason=decision.pause_reason,
            weight=0.0,
        ),
    )


def _roll_back(rollout: Rollout, decision: Decision) -> None:
    actions.withdraw(
        rollout=rollout, actor=None, reason=decision.reason, outcome=RolloutState.ROLLED_BACK
    )


def _settle(rollout: Rollout, decision: Decision) -> None:
    actions.settle(rollout=rollout)


def _fail(rollout: Rollout, decision: Decision) -> None:
    _move(rollout, decision, RolloutState.FAILED, "fail")


def _move(rollout: Rollout, decision: Decision, to: RolloutState, verb: str) -> None:
    move = Move(to=to, verb=verb, reason=decision.reason, pause_reason=decision.pause_reason)
    rollout_move(rollout=rollout, move=move)


_APPLY: dict[Action, Callable[[Rollout, Decision], None]] = {
    Action.HOLD: _hold,
    Action.BEGIN: _begin,
    Action.ADVANCE: _advance,
    Action.PROMOTE: _promote,
    Action.BAKE: _bake,
    Action.SUCCEED: _succeed,
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.STEP_BACK: _step_back,
    Action.WITHDRAW: _withdraw,
    Action.ROLL_BACK: _roll_back,
    Action.SETTLE: _settle,
    Action.FAIL: _fail,
}
