"""How often an HTTP/2 peer may ask whether we are there, as gRPC servers judge it."""

import time
from typing import TYPE_CHECKING, Final

from inference_runtime.frontends.h2_frames import ENHANCE_YOUR_CALM, ConnectionFault

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection

# Between pings of a peer that has no call open.
WITHOUT_CALLS_S: Final = 7200.0


class PingJudge:
    """Counts pings that come too soon after the one before, with nothing sent to the peer in between."""

    __slots__ = ("_connection", "_last", "_sent", "_strikes")

    def __init__(self, connection: "H2Connection") -> None:
        self._connection = connection
        self._last = -WITHOUT_CALLS_S
        self._sent = (0, 0)
        self._strikes = 0

    def received(self) -> None:
        """Raises ConnectionFault when it was one too many; the text makes clients ask more rarely."""
        connection = self._connection
        limits = connection.limits
        if not limits.ping_strikes:
            return
        now = time.monotonic()
        sent = (connection.reader.last_stream, connection.output.sent_bytes)
        too_soon = now - self._last < self._interval()
        self._last = now
        if sent != self._sent:
            self._sent = sent
            self._strikes = 0
        elif too_soon:
            self._strikes += 1
            if self._strikes > limits.ping_strikes:
                raise ConnectionFault(ENHANCE_YOUR_CALM, "too_many_pings")

    def _interval(self) -> float:
        limits = self._connection.limits
        if self._connection.streams or limits.ping_without_calls:
            return limits.ping_interval
        return max(limits.ping_interval, WITHOUT_CALLS_S)
