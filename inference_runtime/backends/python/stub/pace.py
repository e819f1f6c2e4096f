"""Holds back a request's responses while enough of them wait behind it: in ensembles only."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from inference_runtime.backends.python.stub import held_tasks
from inference_runtime.backends.python.stub.link import PROCESS

_BYTES_OF_ONE = 64 << 10  # a large response counts as several


class Pace:
    """After each portion it asks for leave to go on, which has to be there when one more portion has gone."""

    __slots__ = ("_asked", "_leave", "_left", "_number", "_portion")

    def __init__(self, number: int, portion: int) -> None:
        self._number = number
        self._portion = portion
        self._left = portion
        self._asked: Future[Any] | None = None
        self._leave: Future[Any] | None = None  # what was asked for one portion before

    def sent(self, size: int) -> None:
        """A response of so many bytes. One thread at a time."""
        self._left -= 1 + size // _BYTES_OF_ONE
        if self._left <= 0:
            self._left = self._portion
            self._leave = self._asked
            self._asked = PROCESS.link.ask_later("leave", request=self._number)

    def wait(self) -> None:
        """Before a response. In a coroutine it does not block: its task waits, at the latest a portion later."""
        leave = self._leave
        if leave is not None and not leave.done() and not held_tasks.hold_until(leave):
            leave.result()
