"""Which sampler leads. The lease is a row, so that losing it and writing samples exclude each other."""

import os
import platform
import secrets
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from webapp.telemetry.models import SamplerLease

LEASE = timedelta(seconds=3)
_ROW = 1


def holder_name() -> str:
    return f"{platform.node()[:30]}:{os.getpid()}:{secrets.token_hex(4)}"


def lease_take(*, holder: str) -> bool:
    """Takes a lease that is free or over, by the database's clock; renews one's own."""
    with transaction.atomic():
        if SamplerLease.objects.filter(Q(holder=holder) | Q(until__lt=Now()), id=_ROW).update(
            holder=holder, until=Now() + LEASE
        ):
            return True
        _, made = SamplerLease.objects.get_or_create(
            id=_ROW, defaults={"holder": holder, "until": Now() + LEASE}
        )
        return made


def lease_renew(*, holder: str) -> bool:
    """Inside the transaction of what the lease protects: False means somebody else leads."""
    renewed = SamplerLease.objects.filter(id=_ROW, holder=holder).update(until=Now() + LEASE)
    return renewed == 1


def lease_release(*, holder: str) -> None:
    SamplerLease.objects.filter(id=_ROW, holder=holder).update(until=Now() - LEASE)
