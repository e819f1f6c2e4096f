"""Many who ask at the same time what there is get one look, which begins after they have asked. Event loop only."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class SharedLook(Generic[Found]):
    def __init__(self, look: Callable[[], Awaitable[Found]]) -> None:
        self._look = look
        self._running: asyncio.Task[Found] | None = None
        self._next: asyncio.Task[Found] | None = None

    async def __call__(self) -> Found:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._after(self._running))
        # One who goes away takes nothing from the others.
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[Found] | None) -> Found:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._look()
