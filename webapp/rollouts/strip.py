"""What the strip on top of every page says of rollouts."""

from datetime import timedelta

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils import timezone

from webapp.core.templatetags.units import percent
from webapp.core.verdict import StripItem, Verdict
from webapp.rollouts.choices import RolloutState, Verdict as CanaryVerdict
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import rollout_list, rollouts_active

_FAILED_SHOWN_FOR = timedelta(hours=12)
_WORDS: dict[str, str] = {
    CanaryVerdict.PASS: "passing",
    CanaryVerdict.FAIL: "failing",
    CanaryVerdict.INCONCLUSIVE: "inconclusive",
    CanaryVerdict.WAITING: "collecting",
}


def rollouts_verdict(user: AbstractUser) -> Verdict:
    """Active ones, and those whose rollback failed of late and that nothing has replaced since."""
    failed = list(
        rollout_list().filter(
            state=RolloutState.FAILED, ended_at__gt=timezone.now() - _FAILED_SHOWN_FOR
        )
    )
    items = tuple(_failed_item(rollout) for rollout in failed)
    items += tuple(_item(rollout) for rollout in rollouts_active())
    if failed:
        reason = f"the rollback of {failed[0].model.name} failed"
        return Verdict(word="Broken", tone="bad", reason=reason, items=items)
    return Verdict(word="All well", tone="good", items=items)


def _item(rollout: Rollout) -> StripItem:
    doing = rollout.state.lower().replace("_", " ")
    if rollout.state == RolloutState.PROGRESSING:
        doing = _WORDS[rollout.verdict]
    text = f"{rollout.model.name} v{rollout.canary.number} at {percent(rollout.weight)}: {doing}"
    return StripItem(text=text, url=reverse("rollouts:detail", args=[rollout.id]), tone="canary")


def _failed_item(rollout: Rollout) -> StripItem:
    return StripItem(
        text=f"{rollout.model.name}: rollback failed",
        url=reverse("rollouts:detail", args=[rollout.id]),
        tone="bad",
    )
