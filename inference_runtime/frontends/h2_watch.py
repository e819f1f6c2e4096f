"""Timeouts of an HTTP/2 connection, looked at once a second: peers that stall, vanish or never start."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference_runtime.frontends import h2_frames as h2
from inference_runtime.frontends.h2_pings import WITHOUT_CALLS_S

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection


@dataclass(frozen=True, slots=True)
class H2Timeouts:
    """In seconds. A peer with open streams may be silent for as long as keep-alive pings are answered."""

    start: float = 30.0  # until preface and SETTINGS have come, and for a header block
    unread: float = 60.0  # the peer's TCP takes nothing of what we write
    window: float = 600.0  # … or its windows stay closed while answers wait
    upload: float = 120.0  # a unary request makes no progress
    closing: float = 10.0  # until a connection that we closed is gone
    keepalive_time: float = 7200.0
    keepalive_timeout: float = 20.0
    keepalive_without_calls: bool = True  # else no sooner than every two hours
    keepalive_pings: int = 0  # that may go out while nothing else does; 0: any number
    age: float = 0.0  # after which a connection takes no more calls; 0: never
    age_grace: float = 0.0  # … and after which it ends with those it has; 0: never


class H2Watch:
    """The clocks of one connection."""

    __slots__ = (
        "_age",
        "_closing",
        "_connection",
        "_ping",
        "_pings",
        "_progress",
        "_sent",
        "_silent",
        "_start",
        "_stuck",
        "_timeouts",
        "_upload",
    )

    def __init__(self, connection: "H2Connection", timeouts: H2Timeouts) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._start = self._stuck = self._silent = self._upload = self._closing = 0.0
        self._ping = self._age = 0.0
        self._pings = 0  # since something else was sent
        self._sent = (0, 0)
        self._progress = (-1, -1)

    def tick(self, elapsed_s: float) -> None:
        connection, limits = self._connection, self._timeouts
        if connection.closing:
            self._closing += elapsed_s
            overdue = self._closing > limits.closing
        elif not connection.reader.plain:
            self._start += elapsed_s
            overdue = self._start > limits.start
        else:
            self._start = 0.0
            overdue = (
                self._is_stuck(elapsed_s) or self._is_dead(elapsed_s) or self._is_old(elapsed_s)
            )
        if overdue:
            connection.abort()
        else:
            self._check_uploads(elapsed_s)

    def _is_stuck(self, elapsed_s: float) -> bool:
        output = self._connection.output
        progress = (output.progress, self._connection.transport.get_write_buffer_size())
        if not output.waiting or progress != self._progress:
            self._progress = progress
            self._stuck = 0.0
            return False
        self._stuck += elapsed_s
        return self._stuck > (self._timeouts.unread if output.paused else self._timeouts.window)

    def _is_dead(self, elapsed_s: float) -> bool:
        connection = self._connection
        if connection.heard:
            connection.heard = False
            self._silent = self._ping = 0.0
            return False
        self._silent += elapsed_s
        if self._ping:
            self._ping += elapsed_s
            return self._ping > self._timeouts.keepalive_timeout
        if self._silent >= self._keepalive_time() and self._may_ping():
            self._ping = elapsed_s
            connection.write(h2.ping(h2.KEEPALIVE_PING, ack=False))
        return False

    def _keepalive_time(self) -> float:
        limits = self._timeouts
        if self._connection.streams or limits.keepalive_without_calls:
            return limits.keepalive_time
        return max(limits.keepalive_time, WITHOUT_CALLS_S)

    def _may_ping(self) -> bool:
        sent = (self._connection.reader.last_stream, self._connection.output.sent_bytes)
        if sent != self._sent:
            self._sent = sent
            self._pings = 0
        self._pings += 1
        return not self._timeouts.keepalive_pings or self._pings <= self._timeouts.keepalive_pings

    def _is_old(self, elapsed_s: float) -> bool:
        age, grace = self._timeouts.age, self._timeouts.age_grace
        if not age:
            return False
        self._age += elapsed_s
        if self._age >= age:
            self._connection.drain()
        return bool(grace) and self._age >= age + grace

    def _check_uploads(self, elapsed_s: float) -> None:
        self._upload += elapsed_s
        if self._upload < self._timeouts.upload:
            return
        self._upload = 0.0
        for stream in list(self._connection.streams.values()):
            if stream.ended or stream.head.patient:
                continue
            if stream.received_before == stream.received:
                self._connection.reset(stream.id, h2.CANCEL)
            stream.received_before = stream.received
