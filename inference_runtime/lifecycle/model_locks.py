"""Loads and unloads of one model happen one after the other, in the order they were asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Lock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class ModelLocks:
    """By identity; a lock that nobody uses is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(name, _Lock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if lock.users == 0:
                del self._locks[name]

    async def all_free(self) -> None:
        """Returns when everything that holds a lock now has ended."""
        for name in list(self._locks):
            async with self.alone(name):
                pass
