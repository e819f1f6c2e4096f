"""What the strip on top of every page must not hide: a rollback that failed."""

from datetime import timedelta

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils import timezone

from webapp.core.verdict import StripItem, Verdict
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import rollout_list

_SHOWN_FOR = timedelta(hours=12)


def failed_rollbacks_verdict(user: AbstractUser) -> Verdict | None:
    """Of late, and not followed by another rollout of the model."""
    failed = rollout_list().filter(
        state=RolloutState.FAILED, ended_at__gt=timezone.now() - _SHOWN_FOR
    )
    open_ones = [rollout for rollout in failed if not _followed(rollout)]
    if not open_ones:
        return None
    return Verdict(
        word="Broken",
        tone="bad",
        reason=f"the rollback of {open_ones[0].model.name} failed",
        items=tuple(
            StripItem(
                text=f"{rollout.model.name}: rollback failed",
                url=reverse("rollouts:detail", args=[rollout.id]),
                tone="bad",
            )
            for rollout in open_ones
        ),
    )


def _followed(rollout: Rollout) -> bool:
    later = Rollout.objects.filter(model_id=rollout.model_id, created_at__gt=rollout.created_at)
    return later.exists()
