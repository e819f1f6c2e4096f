"""Websocket paths, and who may open them."""

from typing import Any

from webapp.accounts.authentication import live_user
from webapp.core.consumers import LiveConsumer
from webapp.core.origins import SameOrigin, deny

_SOCKETS = {"/ws/live/": SameOrigin(LiveConsumer.as_asgi(identify=live_user))}


async def websocket(scope: Any, receive: Any, send: Any) -> Any:
    return await _SOCKETS.get(scope["path"], deny)(scope, receive, send)
