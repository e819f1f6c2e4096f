"""What the rollout pages are drawn from."""

from typing import Any

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, refusal, user_allows
from webapp.core.templatetags.units import duration
from webapp.rollouts.analysis import CAUTION_LOG_EVIDENCE, log_limit
from webapp.rollouts.comparison import comparison_rows
from webapp.rollouts.diagram import rollout_diagram
from webapp.rollouts.evidence_chart import Point, evidence_svg
from webapp.rollouts.models import EvidencePoint, Rollout
from webapp.rollouts.report import rollout_body, shares_seen
from webapp.rollouts.sample_size import seconds_for
from webapp.rollouts.state_machine import ACTIVE_STATES
from webapp.rollouts.wording import abort_button, buttons_for, state_sentence
from webapp.telemetry.boards import Board

_HISTORY_SHOWN = 50
_POINTS_SHOWN = 400


def detail_context(*, rollout: Rollout, user: User) -> dict[str, Any]:
    body = rollout_body(rollout)
    rate = body["sample"]["rate"]
    shares = shares_seen(rollout=rollout) if rollout.is_active else None
    return {
        "rollout": rollout,
        "body": body,
        "sentence": state_sentence(rollout),
        "diagram": rollout_diagram(rollout=rollout, shares=shares, rate=rate),
        "ladder": ladder_rows(rollout, rate),
        "sample_text": sample_text(body["sample"]),
        "watched": watched(rollout),
        "rows": comparison_rows(**_compared(body)),
        "compared_step": _has_step_sample(body),
        "evidence": evidence_rows(rollout, body),
        "buttons": buttons_for(rollout, rate=rate),
        "abort": abort_button(rollout),
        "why_not": "" if user_allows(user, Action.ROLLOUT) else refusal(Action.ROLLOUT),
        "history": rollout.transitions.all()[:_HISTORY_SHOWN],
        "board": rollout_board(rollout),
    }


def rollout_board(rollout: Rollout) -> Board:
    return Board(
        kind="rollout",
        model=rollout.model.name,
        since=rollout.created_at,
        until=rollout.ended_at,
        stable=rollout.stable.number,
        canary=rollout.canary.number,
    )


def list_rows(rollouts: list[Rollout]) -> list[dict[str, Any]]:
    """One read of shares per active rollout; ended ones need none."""
    return [
        {
            "rollout": rollout,
            "sentence": state_sentence(rollout),
            "diagram": rollout_diagram(
                rollout=rollout,
                shares=shares_seen(rollout=rollout) if rollout.is_active else None,
            ),
        }
        for rollout in rollouts
    ]


# -- parts ----------------------------------------------------------------------------------


def ladder_rows(rollout: Rollout, rate: float | None) -> list[dict[str, Any]]:
    """The steps with where the rollout stands among them."""
    reached = set(rollout.transitions.values_list("step", flat=True))
    return [
        {
            "number": index + 1,
            "weight": step.weight,
            "hold_seconds": step.hold_seconds,
            "min_requests": step.min_requests,
            "pause": step.pause,
            "last": index == rollout.plan.last_step,
            "state": _rung_state(rollout, index, reached),
            "seconds": seconds_for(step, rate),
        }
        for index, step in enumerate(rollout.plan.steps)
    ]


def _rung_state(rollout: Rollout, index: int, reached: set[int]) -> str:
    """`skipped`: a person's advance or promotion went past it."""
    if rollout.state == "SUCCEEDED" or index < rollout.step:
        return "done" if index in reached else "skipped"
    if index > rollout.step or rollout.generation == 0:
        return "ahead"
    if rollout.state in ACTIVE_STATES:
        return "here"
    return "stopped"


def sample_text(sample: dict[str, Any]) -> str:
    """ "214 of 300, about 40 s"."""
    if not sample["needed"]:
        return f"{sample['seen']:,} canary requests"
    text = f"{sample['seen']:,} of {sample['needed']:,}"
    if sample["seen"] >= sample["needed"]:
        return f"{text}, complete"
    if sample["seconds_left"] is None:
        return f"{text}, waiting for traffic"
    return f"{text}, about {clock_text(_coarse(sample['seconds_left']))}"


def _coarse(seconds: float) -> int:
    return max(round(seconds), 1) if seconds < 90 else round(seconds / 60) * 60


def clock_text(seconds: float) -> str:
    """Whole seconds, so that a counting number keeps its width: 7 s, 3 min 20 s."""
    return f"{seconds:.0f} s" if seconds < 60 else duration(int(seconds))


def watched(rollout: Rollout) -> dict[str, Any]:
    hold = rollout.current_step.hold_seconds
    held = min(rollout.held_seconds, hold)
    return {
        "share": held / hold if hold else 1.0,
        "text": f"{clock_text(held)} of {clock_text(hold)}",
    }


def _has_step_sample(body: dict[str, Any]) -> bool:
    step = body["comparison"]["step"]
    return bool(step["canary"]["requests"] and step["stable"]["requests"])


def _compared(body: dict[str, Any]) -> dict[str, Any]:
    source = body["comparison"]["step"] if _has_step_sample(body) else body["comparison"]
    return {"stable": source["stable"], "canary": source["canary"]}


def evidence_rows(rollout: Rollout, body: dict[str, Any]) -> list[dict[str, Any]]:
    points = list(EvidencePoint.objects.filter(rollout=rollout).order_by("-at")[:_POINTS_SHOWN])
    points.reverse()
    limit = log_limit(rollout.plan.guardrails.alpha())
    return [
        {
            **row,
            "chart": evidence_svg(
                [Point(p.at, p.values.get(row["guardrail"], 0.0)) for p in points],
                title=row["title"],
                caution=min(CAUTION_LOG_EVIDENCE / limit, 0.5),
            ),
        }
        for row in body["evidence"]
    ]
