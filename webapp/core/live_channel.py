"""One socket's ear in the channel layer. It outlives Redis: what could not be joined is joined later."""

import asyncio
import logging
from typing import Any

from channels.layers import get_channel_layer

from webapp.core.events import group_of

logger = logging.getLogger(__name__)

_LIMIT_SECONDS = 2.0
_RETRY_SECONDS = 1.0


class LiveChannel:
    def __init__(self) -> None:
        self._layer: Any = get_channel_layer()
        self._name: str | None = None
        self._opening = asyncio.Lock()
        self._joined: set[str] = set()
        self._missing: set[str] = set()

    async def join(self, topic: str) -> bool:
        """False when Redis is away; `rejoin` tries again."""
        self._missing.add(topic)
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                await self._layer.group_add(group_of(topic), await self._open())
        except Exception as error:  # noqa: BLE001 - the layer's errors are many; each means "not now"
            logger.info("cannot join %s yet: %s", topic, error)
            return False
        self._missing.discard(topic)
        self._joined.add(topic)
        return True

    async def leave(self, topic: str) -> None:
        self._missing.discard(topic)
        if topic not in self._joined:
            return
        self._joined.discard(topic)
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                await self._layer.group_discard(group_of(topic), self._name)
        except Exception as error:  # noqa: BLE001 - nothing is lost: events of topics not watched are dropped
            logger.info("cannot leave %s: %s", topic, error)

    async def rejoin(self) -> list[str]:
        """Joins what is missing; returns what was joined, whose events may have been missed."""
        return [topic for topic in sorted(self._missing) if await self.join(topic)]

    async def next_event(self) -> dict[str, Any]:
        """Waits for the next event, through any number of failures of the layer."""
        while True:
            try:
                event: dict[str, Any] = await self._layer.receive(await self._open())
            except Exception as error:  # noqa: BLE001 - see join
                logger.info("live events interrupted: %s", error)
                self._forget()
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return event

    async def close(self) -> None:
        for topic in list(self._joined):
            await self.leave(topic)

    async def _open(self) -> str:
        async with self._opening:
            if self._name is None:
                async with asyncio.timeout(_LIMIT_SECONDS):
                    self._name = str(await self._layer.new_channel())
            return self._name

    def _forget(self) -> None:
        self._name = None
        self._missing |= self._joined
        self._joined.clear()
