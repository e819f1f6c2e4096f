"""Issuing, using and revoking API tokens."""

import secrets
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import ApiToken, User
from webapp.accounts.selectors import token_digest
from webapp.audit.services import audit_record
from webapp.core.errors import InvalidInput

_USED_RESOLUTION = timedelta(minutes=1)  # a busy script must not write a row per call


def token_issue(
    *, user: User, name: str, actor: User | None, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """The row and the token itself, which is shown now and never again."""
    name = name.strip()
    if not name or len(name) > 100:
        raise InvalidInput(
            "A token needs a name of 1 to 100 characters, to know later what uses it.",
            reason="BAD_TOKEN_NAME",
            errors=[{"pointer": "/name", "detail": "1 to 100 characters"}],
        )
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput("A token cannot expire in the past.", reason="BAD_EXPIRY")
    presented = "sy_" + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            name=name,
            digest=token_digest(presented=presented),
            hint=presented[:8],
            expires_at=expires_at,
        )
        audit_record(
            actor=actor,
            action="token.issue",
            target=f"tokens/{token.pk}",
            after=_token_facts(token),
        )
    return token, presented


def token_revoke(*, token: ApiToken, actor: User | None) -> None:
    """Again on a revoked token: nothing happens."""
    before = _token_facts(token)
    with transaction.atomic():
        now = timezone.now()
        if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            return
        token.revoked_at = now
        audit_record(
            actor=actor,
            action="token.revoke",
            target=f"tokens/{token.pk}",
            before=before,
            after=_token_facts(token),
        )


def token_mark_used(*, token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def _token_facts(token: ApiToken) -> dict[str, Any]:
    return {
        "name": token.name,
        "user": token.user.username,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
    }
