"""The one place that changes a rollout's state, step or share. Guarded: the loser of a race is told.

A move writes the row, the traffic table, the history and the audit log in one transaction; the
runtime hears of a new table after the commit.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from webapp.accounts.models import User
from webapp.audit.services import audit_cause, audit_record
from webapp.catalog.choices import Stage
from webapp.catalog.models import ModelVersion
from webapp.catalog.services import stage_switch
from webapp.core.errors import Conflict
from webapp.rollouts.choices import AnalysisState, PauseReason, RolloutState, Verdict
from webapp.rollouts.decision import judgement_of
from webapp.rollouts.evidence import Evidence
from webapp.rollouts.live import rollout_publish
from webapp.rollouts.models import AnalysisRun, Rollout, RolloutTransition
from webapp.rollouts.report import evidence_body, tally_body
from webapp.rollouts.selectors import arms_at, newest_sample_id
from webapp.rollouts.snapshot import snapshot_of
from webapp.rollouts.state_machine import TERMINAL_STATES, may_follow
from webapp.serving.services import traffic_set
from webapp.telemetry.services import mark_event


@dataclass(frozen=True, slots=True)
class Move:
    """Where to, and why. A `weight` sets the canary's share; None leaves traffic alone."""

    to: RolloutState
    reason: str
    verb: str  # for the audit log and the marks in charts
    actor: User | None = None
    pause_reason: PauseReason = PauseReason.NONE
    step: int | None = None
    weight: float | None = None
    outcome: RolloutState | None = None
    recount: bool = False  # count the split anew: one that looked wrong gets a second chance


def rollout_move(*, rollout: Rollout, move: Move) -> Rollout:
    """The moved row. Raises Conflict when the state does not allow the move, or when the rollout
    was moved by somebody else since `rollout` was read."""
    now = timezone.now()
    with transaction.atomic():
        row = _held(rollout)
        if not may_follow(row.state, move.to):
            raise Conflict(
                f"A rollout that is {row.state} cannot become {move.to}.", reason="ILLEGAL_MOVE"
            )
        before = _facts(row)
        _close_analysis(row, move, now)
        changes = _changes(row, move, now)
        if move.weight is not None:
            changes |= _share_changes(row, move, now)
        if not _unmoved(rollout).update(**changes):
            raise _moved_meanwhile()
        row.refresh_from_db()
        if move.weight and row.is_active:
            _open_analysis(row, now)
        _record(row, move, before, now)
    return row


def _unmoved(rollout: Rollout) -> QuerySet[Rollout]:
    return Rollout.objects.filter(id=rollout.id, row_version=rollout.row_version)


def _held(rollout: Rollout) -> Rollout:
    """Read again under the row's lock: turns of the tick add evidence without moving anything."""
    rows = _unmoved(rollout).select_related("model", "stable", "canary", "started_by")
    row = rows.select_for_update(of=("self",)).first()
    if row is None:
        raise _moved_meanwhile()
    return row


def _moved_meanwhile() -> Conflict:
    return Conflict(
        "Somebody else moved this rollout at the same moment. Nothing was changed.",
        reason="ROLLOUT_MOVED",
        help_text="Look at its state now and decide again.",
    )


def _changes(rollout: Rollout, move: Move, now: datetime) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "state": move.to,
        "pause_reason": move.pause_reason,
        "reason": move.reason[:500],
        "row_version": F("row_version") + 1,
        "updated_at": now,
    }
    if move.to != rollout.state:
        changes["state_since"] = now
    if move.to in TERMINAL_STATES:
        changes["ended_at"] = now
    if move.step is not None:
        changes["step"] = move.step
    if move.outcome is not None:
        changes["outcome"] = move.outcome
    if move.recount:
        changes["evidence"] = rollout.learned.recounted().to_json()
    if move.to == RolloutState.PROGRESSING:
        changes["step_since"] = now  # the limit for waiting begins anew, also after a pause
        changes["canary_down_since"] = None
    return changes


def _share_changes(rollout: Rollout, move: Move, now: datetime) -> dict[str, Any]:
    weight = move.weight or 0.0
    with audit_cause(cause=rollout.api_path):
        table = traffic_set(
            model=rollout.model,
            arms=arms_at(rollout=rollout, weight=weight),
            salt=rollout.salt,
            actor=move.actor,
            reason=f"rollout {rollout.id}: {move.verb}",
        )
    changes: dict[str, Any] = {
        "weight": weight,
        "generation": table.generation,
        "weights": {**rollout.weights, str(table.generation): weight},
        "step_since": now,
        "applied_at": None,
        "held_seconds": 0.0,
        "evidence": rollout.learned.for_next_step().to_json(),
    }
    if rollout.generation == 0:
        changes["sample_cursor"] = newest_sample_id()  # what came before is not about this rollout
    return changes


def _facts(rollout: Rollout) -> dict[str, Any]:
    return {
        "state": rollout.state,
        "pause_reason": rollout.pause_reason or None,
        "step": rollout.step,
        "weight": rollout.weight,
    }


def _record(rollout: Rollout, move: Move, before: dict[str, Any], now: datetime) -> None:
    RolloutTransition.objects.create(
        at=now,
        rollout=rollout,
        from_state=before["state"],
        to_state=rollout.state,
        pause_reason=rollout.pause_reason,
        step=rollout.step,
        weight=rollout.weight,
        generation=rollout.generation,
        actor_name=move.actor.get_username() if move.actor else "system",
        reason=move.reason[:500],
    )
    audit_record(
        actor=move.actor,
        action=f"rollout.{move.verb}",
        target=rollout.api_path,
        before=before,
        after=_facts(rollout),
        note=move.reason,
    )
    mark_event(
        kind=move.verb,
        text=f"v{rollout.canary.number} {rollout.state.lower().replace('_', ' ')}"
        f" at {100 * rollout.weight:g}%",
        model_name=rollout.model.name,
    )
    rollout_publish(rollout=rollout, moved=True)


# -- the production pointer -----------------------------------------------------------------


def production_switch(*, rollout: Rollout, version: ModelVersion, move: Move) -> None:
    with audit_cause(cause=rollout.api_path):
        stage_switch(
            model=rollout.model,
            stage=Stage.PRODUCTION,
            version=version,
            actor=move.actor,
            reason=f"rollout {rollout.id}: {move.reason}"[:300],
        )


# -- what each step showed ------------------------------------------------------------------


def _open_analysis(rollout: Rollout, now: datetime) -> None:
    AnalysisRun.objects.create(
        rollout=rollout, step=rollout.step, weight=rollout.weight, started_at=now
    )


_ENDS: dict[str, AnalysisState] = {
    Verdict.PASS: AnalysisState.SUCCESSFUL,
    Verdict.FAIL: AnalysisState.FAILED,
    Verdict.INCONCLUSIVE: AnalysisState.INCONCLUSIVE,
    Verdict.WAITING: AnalysisState.INCONCLUSIVE,
}


def _close_analysis(rollout: Rollout, move: Move, now: datetime) -> None:
    """Called with the row as it was: its evidence is that of the step that ends."""
    if move.weight is None and move.to not in TERMINAL_STATES:
        return
    learned: Evidence = rollout.learned
    judgement = judgement_of(snapshot_of(rollout=rollout, now=now))
    AnalysisRun.objects.filter(rollout=rollout, ended_at=None).update(
        state=_ENDS[judgement.verdict],
        reason=judgement.reason[:500],
        findings=evidence_body(judgement),
        canary=tally_body(learned.step.canary),
        stable=tally_body(learned.step.stable),
        ended_at=now,
    )
