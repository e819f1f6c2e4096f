"""Asking a model whether it is ready: one question at a time, however many want to know."""

import asyncio
from typing import Any

from inference_runtime.backends.python.side_channel import SideChannel
from inference_runtime.backends.python.stub_process import not_healthy
from inference_runtime.backends.python.wire.frames import Kind
from inference_runtime.errors import Internal, NotReady, RuntimeFault, Unavailable

_LIMIT_SECONDS = 5.0


class ReadyChecks:
    """Of one process. Event loop only."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, channel: SideChannel) -> None:
        self._name = name
        self._loop = loop
        self._channel = channel
        self._number = 0
        self._running: asyncio.Future[RuntimeFault | None] | None = None

    async def check(self) -> None:
        """Raises the fault that says why not. A question without an answer stays the only one."""
        own = self._running is None
        if self._running is None:
            self._running = self._loop.create_future()
            self._number += 1
            self._channel.post(Kind.CHECK_READY, {"id": self._number})
        try:
            fault = await asyncio.wait_for(asyncio.shield(self._running), _LIMIT_SECONDS)
        except TimeoutError:
            raise Unavailable(
                "Timed out waiting for user-defined is_ready() response"
                if own
                else "Timed out waiting for in-flight is_ready() response"
            ) from None
        if fault is not None:
            raise fault

    def answered(self, text: Any) -> None:
        """A READY_ANSWER frame."""
        if "error" in text:
            self._settle(Internal(str(text["error"])))
        elif text["ready"] is True:
            self._settle(None)
        else:
            self._settle(
                NotReady(f"Model '{self._name}' is not ready (user-defined check failed).")
            )

    def close(self) -> None:
        """The process is gone."""
        self._settle(not_healthy(self._name))

    def _settle(self, fault: RuntimeFault | None) -> None:
        running, self._running = self._running, None
        if running is not None and not running.done():
            running.set_result(fault)
