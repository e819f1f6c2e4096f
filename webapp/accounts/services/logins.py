"""Checking passwords, and locking a user name for an address that guesses too often."""

import hashlib
from datetime import timedelta

from django.contrib.auth import authenticate
from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import LoginFailure, User
from webapp.audit.services import audit_record
from webapp.core.errors import InvalidInput, QuotaExceeded

MAX_FAILURES = 10
LOCKED_FOR = timedelta(minutes=5)
_COUNTED_FOR = timedelta(minutes=15)


def login_check(*, username: str, password: str, address: str) -> User:
    """The user, or InvalidInput (wrong), or QuotaExceeded (locked; the password is not even tried)."""
    key = hashlib.sha256(f"{username.strip().lower()}|{address}".encode()).hexdigest()
    failure = LoginFailure.objects.filter(key=key).first()
    now = timezone.now()
    if failure is not None and failure.locked_until is not None and failure.locked_until > now:
        raise _locked(failure.locked_until - now)
    user = authenticate(username=username.strip(), password=password)
    if isinstance(user, User):
        LoginFailure.objects.filter(key=key).delete()
        return user
    if _count_failure(key=key, username=username, address=address):
        raise _locked(LOCKED_FOR)
    raise InvalidInput(
        "User name and password do not match. Both are case-sensitive.", reason="WRONG_PASSWORD"
    )


def logins_prune() -> int:
    old = LoginFailure.objects.filter(last_at__lt=timezone.now() - _COUNTED_FOR - LOCKED_FOR)
    return old.delete()[0]


def _count_failure(*, key: str, username: str, address: str) -> bool:
    """True when this failure locks the name for this address."""
    now = timezone.now()
    with transaction.atomic():
        failure, _ = LoginFailure.objects.select_for_update().get_or_create(key=key)
        fresh = failure.last_at < now - _COUNTED_FOR or failure.locked_until is not None
        failure.count = 1 if fresh else failure.count + 1
        failure.locked_until = now + LOCKED_FOR if failure.count >= MAX_FAILURES else None
        failure.last_at = now
        failure.save()
        if failure.locked_until is not None:
            audit_record(
                actor=None,
                action="login.lock",
                target=f"people/{username.strip()[:150]}",
                after={"address": address, "failures": failure.count},
                note=f"locked for {int(LOCKED_FOR.total_seconds() // 60)} minutes",
            )
    return failure.locked_until is not None


def _locked(left: timedelta) -> QuotaExceeded:
    minutes = max(1, round(left.total_seconds() / 60))
    return QuotaExceeded(
        f"Too many wrong passwords. Try again in {minutes} min.",
        reason="LOGIN_LOCKED",
        help_text="An admin can reset your password under People.",
        retry_after_seconds=int(left.total_seconds()),
    )
