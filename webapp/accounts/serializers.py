"""People and tokens as the API shows them."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from webapp.accounts.models import ApiToken, User
from webapp.accounts.permissions import Action, allows


def person_body(person: User) -> dict[str, Any]:
    return {
        "username": person.username,
        "role": person.role,
        "is_active": person.is_active,
        "created_at": _iso(person.date_joined),
        "last_login_at": _iso(person.last_login),
    }


def me_body(person: User) -> dict[str, Any]:
    return person_body(person) | {
        "may": [action.value for action in Action if allows(person.role, action)]
    }


def token_body(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "name": token.name,
        "hint": token.hint,
        "state": token_state(token),
        "created_at": _iso(token.created_at),
        "last_used_at": _iso(token.last_used_at),
        "expires_at": _iso(token.expires_at),
        "revoked_at": _iso(token.revoked_at),
    }


def token_state(token: ApiToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and token.expires_at <= timezone.now():
        return "expired"
    return "active"


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
