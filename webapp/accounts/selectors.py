"""Reads of people and tokens."""

import hashlib

from django.db.models import Q, QuerySet
from django.utils import timezone

from webapp.accounts.choices import Role
from webapp.accounts.models import ApiToken, User
from webapp.core.errors import NotFound


def token_digest(*, presented: str) -> str:
    return hashlib.sha256(presented.encode()).hexdigest()


def token_in_force(*, presented: str) -> ApiToken | None:
    """The token, unless it is revoked, expired, or its owner deactivated."""
    return (
        ApiToken.objects.select_related("user")
        .filter(digest=token_digest(presented=presented), revoked_at=None, user__is_active=True)
        .filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
        .first()
    )


def token_list(*, user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user).order_by("-id")


def token_get(*, user: User, token_id: int) -> ApiToken:
    token = ApiToken.objects.filter(user=user, id=token_id).first()
    if token is None:
        raise NotFound(f"You have no token number {token_id}.", reason="TOKEN_NOT_FOUND")
    return token


def person_list() -> QuerySet[User]:
    return User.objects.order_by("username")


def person_get(*, username: str) -> User:
    person = User.objects.filter(username=username).first()
    if person is None:
        raise NotFound(f"There is nobody called {username!r}.", reason="PERSON_NOT_FOUND")
    return person


def admin_count() -> int:
    return User.objects.filter(role=Role.ADMIN, is_active=True).count()
