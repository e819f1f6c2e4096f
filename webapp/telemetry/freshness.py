"""What the strip on top says of the data itself: how old it is, and whose is missing."""

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils import timezone

from webapp.core.verdict import StripItem, Verdict
from webapp.serving.models import Runtime
from webapp.telemetry.selectors import STALE_AFTER, data_at, last_seen


def freshness_verdict(user: AbstractUser) -> Verdict | None:
    runtimes = list(Runtime.objects.all())
    newest = data_at()
    if not runtimes:
        return None
    if newest is None:
        reason = "the sampler has not read a runtime yet"
        return Verdict(word="Unknown", tone="idle", reason=reason)
    now = timezone.now()
    if now - newest > STALE_AFTER:
        reason = "no fresh data: the sampler is not running, or no runtime answers it"
        return Verdict(word="No data", tone="bad", reason=reason, data_at=newest)
    seen = last_seen()
    silent = [r for r in runtimes if r.id not in seen or now - seen[r.id] > STALE_AFTER]
    items = tuple(
        StripItem(
            text=f"{runtime.name} does not answer the sampler",
            url=f"{reverse('telemetry:live')}?runtime={runtime.name}",
            tone="bad",
        )
        for runtime in silent
    )
    word = "Degraded" if silent else "All well"
    reason = f"{len(silent)} of {len(runtimes)} runtimes silent" if silent else ""
    return Verdict(
        word=word, tone="bad" if silent else "good", reason=reason, items=items, data_at=newest
    )
