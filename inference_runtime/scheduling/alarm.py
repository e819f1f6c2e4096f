"""One timer for the earliest of many reasons; whoever wakes too early sets it again."""

import asyncio
from collections.abc import Callable


class Alarm:
    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at_ns = 0

    def set(self, at_ns: int, now_ns: int) -> None:
        """Rings then, or earlier when it was set for earlier."""
        if self._timer is not None:
            if self._at_ns <= at_ns:
                return
            self._timer.cancel()
        self._at_ns = at_ns
        self._timer = self._loop.call_later((at_ns - now_ns) / 1e9, self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._ring()
