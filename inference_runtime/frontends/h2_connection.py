"""One HTTP/2 connection: frames in, streams opened and closed, everything checked by RFC 9113.

What requests mean is the business of the stream heads that `describe` makes (see h2_stream.py).
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

from inference_runtime.frontends import h2_frames as h2
from inference_runtime.frontends.h2_frames import ConnectionFault
from inference_runtime.frontends.h2_headers import Describe
from inference_runtime.frontends.h2_limits import FloodGuard, H2Limits
from inference_runtime.frontends.h2_output import H2Output
from inference_runtime.frontends.h2_reader import FrameReader
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.h2_watch import H2Timeouts, H2Watch

_RECENT: Final = 512


class Joins(Protocol):
    """Who keeps account of open connections."""

    def joined(self, connection: "H2Connection") -> bool: ...
    def left(self, connection: "H2Connection") -> None: ...


class H2Connection(asyncio.Protocol):
    """`hint` is for the protocol above: what this client did last."""

    __slots__ = (
        "_joins",
        "_recent",
        "_rest",
        "_watch",
        "closing",
        "control_guard",
        "draining",
        "heard",
        "hint",
        "leaving",
        "limits",
        "orphans",
        "output",
        "reader",
        "reset_guard",
        "streams",
        "transport",
    )

    def __init__(
        self, describe: Describe, limits: H2Limits, timeouts: H2Timeouts, joins: Joins
    ) -> None:
        self._joins = joins
        self._watch = H2Watch(self, timeouts)
        self.limits = limits
        self.transport: Any = None
        self.streams: dict[int, H2Stream] = {}
        self.orphans = 0  # requests still running whose stream is gone
        self._recent: deque[int] = deque(maxlen=_RECENT)  # streams we ended before the peer did
        self.output = H2Output(self)
        self.reader = FrameReader(self, describe)
        self.control_guard = FloodGuard("control", limits.control_burst, limits.control_rate)
        self.reset_guard = FloodGuard("RST_STREAM", limits.reset_burst, limits.reset_rate)
        self._rest = b""
        self.draining = False  # we have announced our leave
        self.leaving = False  # and, or the peer has: no new streams, over with the last one
        self.closing = False
        self.hint: Any = None
        self.heard = True  # something came since the watch last looked

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if not self._joins.joined(self):
            self.abort()
            return
        self.transport.set_write_buffer_limits(high=self.limits.write_high_water)
        self.write(
            h2.settings(
                [
                    (h2.MAX_CONCURRENT_STREAMS, self.limits.max_streams),
                    (h2.INITIAL_WINDOW_SIZE, self.limits.stream_window),
                    (h2.MAX_FRAME_SIZE, self.limits.max_frame_size),
                    (h2.MAX_HEADER_LIST_SIZE, self.limits.header_list_size),
                ]
            )
        )
        if self.limits.connection_window > h2.DEFAULT_WINDOW:
            more = self.limits.connection_window - h2.DEFAULT_WINDOW
            self.write(h2.window_update(0, more))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        # First of all: whatever goes wrong below, a listener that closes must not wait for this for ever.
        self._joins.left(self)
        self._drop_all()

    def watch(self, elapsed_s: float) -> None:
        self._watch.tick(elapsed_s)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        # A peer that does not read is not read either, or its requests would pile up answers.
        self.output.pause()
        if not self.closing:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.closing:
            self.transport.resume_reading()
        self.output.resume()

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._rest:
            data = self._rest + data
            self._rest = b""
        try:
            position = self.reader.read(data)
        except ConnectionFault as fault:
            self.fail(fault.code, fault.text)
            return
        if position < len(data) and not self.closing:
            self._rest = data[position:]

    # -- writing

    def write(self, data: bytes) -> None:
        """Never raises: a peer that is gone takes no other request with it."""
        if not self.closing:
            self.transport.write(data)

    def write_pair(self, first: bytes, second: memoryview) -> None:
        if not self.closing:
            self.transport.writelines((first, second))

    # -- streams

    def has_room(self) -> bool:
        """Whether one more stream may be opened. Requests that go on without theirs count as well."""
        limits = self.limits
        return (
            len(self.streams) + self.orphans < limits.max_streams
            and self.output.unsent < limits.unsent
            and not self.leaving
        )

    def ended_early(self, stream_id: int) -> bool:
        """Whether we ended the stream when the peer could not know yet."""
        return stream_id in self._recent

    def replenish(self, stream: H2Stream) -> None:
        """Lets the peer send more on a stream whose data has been taken."""
        used = self.limits.stream_window - stream.receive_window
        if 2 * used >= self.limits.stream_window and not stream.ended:
            stream.receive_window += used
            self.write(h2.window_update(stream.id, used))

    def finish(self, stream: H2Stream) -> None:
        """Our side has ended. A peer that has not is told that nothing more is wanted."""
        stream.closed = True
        self.streams.pop(stream.id, None)
        if not stream.ended:
            self._recent.append(stream.id)
            self.write(h2.rst_stream(stream.id, h2.NO_ERROR))
        if self.leaving:
            self.leave_if_done()

    def reset(self, stream_id: int, code: int) -> None:
        self._recent.append(stream_id)
        self.write(h2.rst_stream(stream_id, code))
        self.drop(stream_id)

    def drop(self, stream_id: int) -> None:
        """The stream is over without a proper end."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            self._abandon(stream)
        self.leave_if_done()

    def _drop_all(self) -> None:
        for stream_id in list(self.streams):
            self.drop(stream_id)

    def _abandon(self, stream: H2Stream) -> None:
        stream.closed = True
        self.output.forget(stream)
        stream.head.on_reset(stream)

    # -- end of the connection

    def fail(self, code: int, text: str) -> None:
        """Says why and stops writing. What still comes is read and dropped for a while: closing at once
        would make the kernel take the explanation back."""
        if self.closing:
            return
        self.transport.write(h2.goaway(self.reader.last_stream, code, text))
        self.closing = True
        self._drop_all()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS knows no half of a connection

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def drain(self) -> None:
        """Takes no new streams once the peer knows, and closes when the open ones are done."""
        if not (self.draining or self.closing):
            self.draining = True
            # Two steps, so that a request already under way is still served: see RFC 9113, 6.8.
            self.write(h2.goaway(h2.STREAM_MAX, h2.NO_ERROR) + h2.ping(h2.DRAIN_PING, ack=False))

    def leave(self) -> None:
        self.leaving = True
        self.leave_if_done()

    def leave_if_done(self) -> None:
        if self.leaving and not self.streams:
            self.close()
