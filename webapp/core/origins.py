"""Refuses websockets opened by another site's page: the browser sends our cookie with those too."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings


def origin_allowed(*, origin: str, host: str) -> bool:
    """Same host and port as the request, or listed in CSRF_TRUSTED_ORIGINS."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    return urlsplit(origin).netloc.lower() == host.lower() != ""


class SameOrigin:
    """Scripts send no Origin and are let through: they have no cookie they did not fetch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        if origin and not origin_allowed(origin=origin, host=headers.get(b"host", "")):
            return await deny(scope, receive, send)
        return await self._inner(scope, receive, send)


async def deny(scope: Any, receive: Any, send: Any) -> None:
    """Refuses the handshake, which the client sees as HTTP 403."""
    await receive()
    await send({"type": "websocket.close"})
