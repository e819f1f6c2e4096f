"""Tasks of an event loop that wait where they next await something, for what they could not await themselves.

A function that blocks in a coroutine takes the loop from all other coroutines; this way only its own task stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

_steps: dict[asyncio.AbstractEventLoop, _Steps] = {}  # by loop, of the task that it runs just now


def allow(loop: asyncio.AbstractEventLoop) -> None:
    """From here on its new tasks can be held."""
    if loop.get_task_factory() is None:
        loop.set_task_factory(_task)


def hold_until(leave: Future[Any]) -> bool:
    """Has the task that runs here wait for `leave`; False: it is none that could, or still has one to wait for."""
    loop = asyncio._get_running_loop()
    steps = _steps.get(loop) if loop is not None else None
    return steps is not None and steps.hold_until(leave)


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
    if asyncio.iscoroutine(coroutine):
        coroutine = _Steps(loop, coroutine)
    return asyncio.Task(coroutine, loop=loop, **more)


class _Steps(Coroutine[Any, Any, Any]):
    """A coroutine that is run from one thing it awaits to the next, and may have to pause in between."""

    __slots__ = ("_coroutine", "_leave", "_loop", "_pause")

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Any) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._leave: Future[Any] | None = None
        self._pause: Generator[Any, None, Any] | None = None

    def hold_until(self, leave: Future[Any]) -> bool:
        if self._leave is None:
            self._leave = leave
        return self._leave is leave

    def send(self, value: Any) -> Any:
        if self._leave is not None and self._pause is None:
            self._pause = self._until(self._leave).__await__()
        if self._pause is not None:
            try:
                return self._pause.send(None)
            except StopIteration:
                self._go_on()
        _steps[self._loop] = self
        try:
            return self._coroutine.send(value)
        finally:
            del _steps[self._loop]

    def throw(self, *error: Any) -> Any:
        """A cancellation, say: what waits is to see it."""
        self._go_on()
        _steps[self._loop] = self
        try:
            return self._coroutine.throw(*error)
        finally:
            del _steps[self._loop]

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._coroutine.__await__())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # `cr_frame` and the like, for who looks at tasks

    def _go_on(self) -> None:
        self._leave = self._pause = None

    def _until(self, leave: Future[Any]) -> asyncio.Future[None]:
        there = self._loop.create_future()

        def arrived(_: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(_set, there)

        leave.add_done_callback(arrived)
        return there


def _set(there: asyncio.Future[None]) -> None:
    if not there.done():
        there.set_result(None)
