"""Timeouts of an HTTP/1.1 connection, looked at once a second."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_runtime.frontends.http1_connection import Http1Connection


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """In seconds. While the runtime works on a request, the client may be silent for ever."""

    head: float = 30.0  # from a head's first byte to its last, however they dribble
    body: float = 60.0  # without a byte of a body that is not complete
    idle: float = 7200.0  # between requests; stock clients keep connections and expect them to last
    unread: float = 60.0  # the client takes nothing of its answer
    closing: float = 10.0  # until a connection that we closed is gone


class HttpWatch:
    """The clocks of one connection."""

    __slots__ = ("_closing", "_connection", "_head", "_silent", "_stuck", "_timeouts", "_unsent")

    def __init__(self, connection: "Http1Connection", timeouts: HttpTimeouts) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._closing = self._head = self._silent = self._stuck = 0.0
        self._unsent = 0

    def tick(self, elapsed_s: float) -> None:
        connection = self._connection
        self._silent = 0.0 if connection.heard else self._silent + elapsed_s
        connection.heard = False
        if connection.closing:
            self._closing += elapsed_s
            if self._closing > self._timeouts.closing and not self._progress():
                connection.abort()
        elif connection.paused:
            self._stuck = 0.0 if self._progress() else self._stuck + elapsed_s
            if self._stuck > self._timeouts.unread:
                connection.abort()
        elif connection.busy:
            self._silent = 0.0
            connection.probe()
        else:
            self._check_client(elapsed_s)

    def _check_client(self, elapsed_s: float) -> None:
        connection, limits = self._connection, self._timeouts
        self._stuck = 0.0
        if connection.awaits_head:
            self._head += elapsed_s
            if self._head > limits.head:
                connection.timed_out()
            return
        self._head = 0.0
        if connection.awaits_body:
            if self._silent > limits.body:
                connection.timed_out()
        elif self._silent > limits.idle:
            connection.close()

    def _progress(self) -> bool:
        """Whether the client has taken some of what waits for it."""
        unsent: int = self._connection.transport.get_write_buffer_size()
        moved = unsent != self._unsent
        self._unsent = unsent
        return moved
