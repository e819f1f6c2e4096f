"""Answers the server's lifespan events, so that start-up and shutdown are clean in its log."""

from typing import Any


class Lifespan:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await send({"type": "lifespan.shutdown.complete"})
                return
