"""What the strip on top of every page says: runtimes, failing requests, data age, active rollouts."""

from datetime import timedelta

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils import timezone

from webapp.core.verdict import StripItem, Tone, Verdict
from webapp.dashboard.selectors import failing_now
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import rollouts_active
from webapp.serving.choices import RuntimeHealth
from webapp.serving.selectors import runtime_list
from webapp.telemetry.selectors import data_at

_OLD_AFTER = timedelta(seconds=10)


def fleet_verdict(user: AbstractUser) -> Verdict:
    runtimes = list(runtime_list())
    at = data_at()
    if not runtimes:
        return Verdict("No runtime", "idle", "none is registered yet", data_at=at)
    bad = [r for r in runtimes if r.health in {RuntimeHealth.NOT_READY, RuntimeHealth.UNREACHABLE}]
    if bad:
        names = ", ".join(runtime.name for runtime in bad[:3])
        return Verdict("Degraded", "bad", f"{names}: {bad[0].health_reason}", data_at=at)
    if at is None or timezone.now() - at > _OLD_AFTER:
        return Verdict("Blind", "canary", "the sampler tells nothing new", data_at=at)
    ready = sum(runtime.health == RuntimeHealth.READY for runtime in runtimes)
    return Verdict("All well", "good", f"{ready} of {len(runtimes)} runtimes ready", data_at=at)


def requests_verdict(user: AbstractUser) -> Verdict | None:
    for problem in failing_now():
        return Verdict("Failing", "bad", f"{problem.text} {problem.reason}")
    return None


def rollout_verdict(user: AbstractUser) -> Verdict | None:
    rollouts = list(rollouts_active()[:5])
    if not rollouts:
        return None
    return Verdict("All well", "good", items=tuple(_item(rollout) for rollout in rollouts))


def _item(rollout: Rollout) -> StripItem:
    paused = rollout.state == RolloutState.PAUSED
    tone: Tone = "bad" if rollout.state == RolloutState.ROLLING_BACK else "canary"
    word = (
        f"paused ({rollout.pause_reason.lower().replace('_', ' ')})"
        if paused
        else f"{rollout.weight:.0%}"
    )
    return StripItem(
        text=f"{rollout.model.name} v{rollout.canary.number}: {word}",
        url=reverse("rollouts:detail", args=[rollout.id]),
        tone=tone,
    )
