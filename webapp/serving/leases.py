"""One at a time may change what a runtime has loaded of a model, across processes and hosts.

The lease is a row with an end. A thread renews it while the work goes on, so a killed worker holds
up nobody for longer than LEASE.
"""

import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.models import Q
from django.db.models.functions import Now

from webapp.serving.models import WorkLease

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=20)
_LOOK_AGAIN_SECONDS = 0.2


class LeaseBusy(Exception):
    """Somebody else is at it."""


class LeaseGone(Exception):
    """The lease ran out while we worked; somebody else may be at it now."""


class Lease:
    def __init__(self, name: str) -> None:
        self.name = name
        self.holder = f"{platform.node()[:30]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stop = threading.Event()
        self.lost = False

    def check(self) -> None:
        """Call before a write that nobody else may do at the same time."""
        if self.lost:
            raise LeaseGone(self.name)

    def take(self) -> bool:
        free = Q(until__lt=Now()) | Q(holder="")
        if WorkLease.objects.filter(free, name=self.name).update(
            holder=self.holder, until=Now() + LEASE
        ):
            return True
        if WorkLease.objects.filter(name=self.name).exists():
            return False
        try:
            with transaction.atomic():
                WorkLease.objects.create(name=self.name, holder=self.holder, until=Now() + LEASE)
        except IntegrityError:
            return False
        return True

    def renew_until_stopped(self, seconds: float) -> None:
        try:
            while not self._stop.wait(seconds):
                self._renew()
        finally:
            connections.close_all()

    def stop(self) -> None:
        self._stop.set()

    def _renew(self) -> None:
        try:
            renewed = WorkLease.objects.filter(name=self.name, holder=self.holder).update(
                until=Now() + LEASE
            )
        except DatabaseError as error:
            logger.warning("lease %s not renewed: %s", self.name, error)
            return
        self.lost = not renewed

    def give_back(self) -> None:
        WorkLease.objects.filter(name=self.name, holder=self.holder).update(holder="")


@contextmanager
def held(
    name: str,
    *,
    wait_seconds: float = 0.0,
    check: Callable[[], None] | None = None,
    renew_seconds: float = 5.0,
) -> Iterator[Lease]:
    """Raises LeaseBusy when the lease is not free within `wait_seconds`.

    `check` is called while waiting and may raise to end it.
    """
    lease = Lease(name)
    deadline = time.monotonic() + wait_seconds
    while not lease.take():
        if time.monotonic() >= deadline:
            raise LeaseBusy(name)
        if check is not None:
            check()
        time.sleep(_LOOK_AGAIN_SECONDS)
    thread = threading.Thread(
        target=lease.renew_until_stopped, args=[renew_seconds], name=f"lease-{name}", daemon=True
    )
    thread.start()
    try:
        yield lease
    finally:
        lease.stop()
        thread.join()
        lease.give_back()


def names_held(*, prefix: str) -> set[str]:
    rows = WorkLease.objects.filter(name__startswith=prefix, until__gte=Now()).exclude(holder="")
    return set(rows.values_list("name", flat=True))
