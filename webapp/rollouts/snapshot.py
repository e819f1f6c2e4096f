"""A rollout's row and its surroundings as the pure snapshot that decisions are made from."""

from datetime import datetime, timedelta

from webapp.rollouts.decision import Snapshot
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import Surroundings


def snapshot_of(*, rollout: Rollout, now: datetime, around: Surroundings | None = None) -> Snapshot:
    """Without `around`, only the parts that the verdict needs are right."""
    own = Snapshot(
        state=rollout.state,
        plan=rollout.plan,
        step=rollout.step,
        evidence=rollout.learned,
    )
    if around is None:
        return own
    return Snapshot(
        state=rollout.state,
        plan=own.plan,
        step=rollout.step,
        evidence=own.evidence,
        pause_reason=rollout.pause_reason,
        weight=rollout.weight,
        held_seconds=rollout.held_seconds,
        step_seconds=_seconds(now - rollout.step_since),
        state_seconds=_seconds(now - rollout.state_since),
        metrics_age_seconds=_seconds(now - around.seen_at) if around.seen_at else None,
        canary=around.canary,
        canary_reason=around.canary_reason,
        canary_down_seconds=_seconds(now - rollout.canary_down_since)
        if rollout.canary_down_since
        else 0.0,
        unconfirmed=around.unconfirmed,
        changed_outside=around.changed_outside,
        per_request=around.per_request,
        in_flight=rollout.in_flight,
        latency_allowance_ns=around.latency_allowance_ns,
    )


def _seconds(span: timedelta) -> float:
    return max(span.total_seconds(), 0.0)
