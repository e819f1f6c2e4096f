"""Who is asking: a bearer token or a session, for the API and for websockets."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from webapp.accounts.models import ApiToken, User
from webapp.accounts.permissions import Action, user_allows
from webapp.accounts.selectors import token_in_force
from webapp.accounts.services import token_mark_used


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer sy_…`. No cookie, so no CSRF token is needed."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        presented = bearer_of(request.headers.get("Authorization", ""))
        if presented is None:
            return None
        token = token_in_force(presented=presented)
        if token is None:
            raise AuthenticationFailed(
                "This token is unknown, expired or revoked, or its owner is deactivated."
            )
        token_mark_used(token=token)
        token.user.token_shown = str(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="switchyard"'


def bearer_of(header: str) -> str | None:
    scheme, _, presented = header.strip().partition(" ")
    return presented.strip() if scheme.lower() == "bearer" and presented.strip() else None


def live_user(scope: dict[str, Any]) -> User | None:
    """The user behind a websocket, if they may look; asked at connection and again while it is open."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    presented = bearer_of(headers.get(b"authorization", ""))
    if presented is not None:
        token = token_in_force(presented=presented)
        user: Any = token.user if token is not None else None
    else:
        user = _session_user(headers.get(b"cookie", ""))
    return user if isinstance(user, User) and user_allows(user, Action.VIEW) else None


def _session_user(cookie_header: str) -> Any:
    try:
        morsel = SimpleCookie(cookie_header).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if morsel is None:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(morsel.value)
    return get_user(request)  # checks the session's hash against the user's password
