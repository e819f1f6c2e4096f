"""A rollout as others see it: the body of the API and of live frames."""

from typing import Any

from django.utils import timezone

from webapp.rollouts.analysis import NOUNS, Finding, Judgement
from webapp.rollouts.choices import Guardrail
from webapp.rollouts.decision import judgement_of
from webapp.rollouts.measurements import Tally
from webapp.rollouts.models import Rollout
from webapp.rollouts.sample_size import seconds_left
from webapp.rollouts.selectors import applied_weight
from webapp.rollouts.snapshot import snapshot_of
from webapp.rollouts.state_machine import moves_in
from webapp.telemetry.selectors import observed_shares, rate_now

_SHARES_SECONDS = 30


def rollout_body(rollout: Rollout) -> dict[str, Any]:
    """The shape of design §2, and more. Costs three queries besides the row."""
    judgement = judgement_of(snapshot_of(rollout=rollout, now=timezone.now()))
    return {
        "id": rollout.id,
        "model": rollout.model.name,
        "stable": {"version": rollout.stable.number, "variant": None},
        "canary": {"version": rollout.canary.number, "variant": None},
        "state": rollout.state,
        "pause_reason": rollout.pause_reason or None,
        "step": rollout.step,
        "steps": rollout.steps,
        "guardrails": rollout.guardrails,
        "verdict": rollout.verdict,
        "evidence": evidence_body(judgement),
        "reason": rollout.reason,
        "weight": rollout.weight,
        "generation": rollout.generation,
        "shares": shares_body(rollout),
        "sample": sample_body(rollout),
        "comparison": comparison_body(rollout),
        "held_seconds": round(rollout.held_seconds, 1),
        "actions": [move.value for move in moves_in(rollout.state)],
        "started_by": rollout.started_by.get_username() if rollout.started_by else None,
        "created_at": rollout.created_at.isoformat(),
        "state_since": rollout.state_since.isoformat(),
        "ended_at": rollout.ended_at.isoformat() if rollout.ended_at else None,
        "row_version": rollout.row_version,
    }


def rollout_summary(rollout: Rollout) -> dict[str, Any]:
    """For lists told live: no reads besides the row."""
    return {
        "id": rollout.id,
        "model": rollout.model.name,
        "stable": rollout.stable.number,
        "canary": rollout.canary.number,
        "state": rollout.state,
        "pause_reason": rollout.pause_reason or None,
        "step": rollout.step,
        "weight": rollout.weight,
        "verdict": rollout.verdict,
        "reason": rollout.reason,
    }


def evidence_body(judgement: Judgement) -> list[dict[str, Any]]:
    return [_finding_body(finding) for finding in judgement.findings]


def _finding_body(finding: Finding) -> dict[str, Any]:
    return {
        "guardrail": finding.guardrail.value,
        "title": Guardrail(finding.guardrail).label,
        "noun": NOUNS[finding.guardrail],
        "verdict": finding.verdict.value,
        "progress": round(finding.progress, 4),
        "log_evidence": round(finding.log_evidence, 4),
        "log_limit": round(finding.log_limit, 4),
        "canary": _rate_body(finding.canary_bad, finding.canary_base),
        "stable": _rate_body(finding.stable_bad, finding.stable_base),
        "text": finding.counts_text(),
    }


def _rate_body(bad: int, base: int) -> dict[str, Any]:
    return {"bad": bad, "requests": base, "rate": bad / base if base else None}


def tally_body(tally: Tally) -> dict[str, Any]:
    """Counts of one arm and what follows from them; unknown is None, never 0."""
    bad = tally.errors + tally.rejections
    return {
        "requests": tally.requests,
        "errors": tally.errors,
        "rejections": tally.rejections,
        "client_faults": tally.client_faults,
        "error_share": bad / tally.requests if tally.requests else None,
        "latency_ms": {
            "p50": tally.percentile_ms(0.50),
            "p95": tally.percentile_ms(0.95),
            "p99": tally.percentile_ms(0.99),
        },
        "queue_ms": tally.mean_ms("queue"),
        "compute_ms": tally.mean_ms("compute"),
        "batch_size": tally.inferences / tally.executions if tally.executions else None,
    }


def comparison_body(rollout: Rollout) -> dict[str, Any]:
    """Both arms over the whole rollout, and over the step."""
    learned = rollout.learned
    return {
        "canary": tally_body(learned.total.canary),
        "stable": tally_body(learned.total.stable),
        "step": {
            "canary": tally_body(learned.step.canary),
            "stable": tally_body(learned.step.stable),
        },
        "slo_ms": learned.slo_ms,
    }


def shares_body(rollout: Rollout) -> dict[str, Any]:
    """The canary's share: as set, as every runtime has confirmed, as seen in the last 30 s."""
    shares = shares_seen(rollout=rollout)
    observed = shares.get(rollout.canary.number, 0.0) if shares else None
    return {
        "configured": rollout.weight,
        "applied": applied_weight(rollout=rollout),
        "observed": observed,
    }


def shares_seen(*, rollout: Rollout) -> dict[int, float]:
    """Version → share, over the last 30 s or since the newest share is applied."""
    seconds = _SHARES_SECONDS
    if rollout.applied_at is not None:
        since = (timezone.now() - rollout.applied_at).total_seconds()
        seconds = min(max(int(since), 2), _SHARES_SECONDS)
    return observed_shares(model=rollout.model.name, window_seconds=seconds)


def sample_body(rollout: Rollout) -> dict[str, Any]:
    """How far the step's sample has come, and when it will be complete at today's traffic."""
    step = rollout.current_step
    seen = rollout.learned.step.canary.requests
    rate = rate_now(model=rollout.model.name)
    missing = max(step.min_requests - seen, 0)
    return {
        "seen": seen,
        "needed": step.min_requests,
        "seconds_left": seconds_left(missing, rate, rollout.weight),
        "rate": rate,
    }
