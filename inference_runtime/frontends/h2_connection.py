"""One HTTP/2 connection: frames in, streams opened and closed, everything checked by RFC 9113.

What requests mean is the business of the stream heads that `describe` makes (see h2_stream.py).
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

from inference_runtime.frontends import h2_frames as h2
from inference_runtime.frontends.h2_control import ControlFrames
from inference_runtime.frontends.h2_frames import ConnectionFault, StreamFault, unpack_header
from inference_runtime.frontends.h2_headers import Describe, HeaderBlocks
from inference_runtime.frontends.h2_limits import FloodGuard, H2Limits
from inference_runtime.frontends.h2_output import H2Output
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
        "_receive_low",
        "_recent",
        "_rest",
        "_watch",
        "blocks",
        "closing",
        "control",
        "control_guard",
        "draining",
        "heard",
        "hint",
        "last_stream",
        "leaving",
        "limits",
        "orphans",
        "output",
        "plain",
        "receive_window",
        "reset_guard",
        "started",
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
        self.output = H2Output(self)
        self.blocks = HeaderBlocks(describe, limits)
        self.control_guard = FloodGuard("control", limits.control_burst, limits.control_rate)
        self.reset_guard = FloodGuard("RST_STREAM", limits.reset_burst, limits.reset_rate)
        self.control = ControlFrames(self)
        self.streams: dict[int, H2Stream] = {}
        self.orphans = 0  # requests still running whose stream is gone
        self._recent: deque[int] = deque(maxlen=_RECENT)  # streams we ended before the peer did
        self._rest = b""
        self.started = False  # preface and first SETTINGS have come
        self.plain = False  # any frame may come next
        self.last_stream = 0
        self.receive_window = limits.connection_window
        self._receive_low = limits.connection_window // 2
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
        self._drop_all()
        self._joins.left(self)

    def watch(self, elapsed_s: float) -> None:
        self._watch.tick(elapsed_s)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.output.pause()

    def resume_writing(self) -> None:
        self.output.resume()

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._rest:
            data = self._rest + data
            self._rest = b""
        try:
            position = self._read_frames(data) if self.started else self._read_start(data)
        except ConnectionFault as fault:
            self.fail(fault.code, fault.text)
            return
        if position < len(data) and not self.closing:
            self._rest = data[position:]

    # -- reading

    def _read_start(self, data: bytes) -> int:
        size = len(h2.PREFACE)
        if not h2.PREFACE.startswith(data[:size]):
            raise ConnectionFault(h2.PROTOCOL_ERROR, "no HTTP/2 preface")
        if len(data) < size + 9:
            return 0
        if data[size + 3] != h2.SETTINGS or data[size + 4] & h2.ACK:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        self.started = self.plain = True
        return size + self._read_frames(data[size:])

    def _read_frames(self, data: bytes) -> int:
        """Returns where the first incomplete frame starts."""
        position = 0
        end = len(data)
        streams = self.streams
        limit = self.limits.max_frame_size
        while end - position >= 9 and not self.closing:
            word, flags, stream_id = unpack_header(data, position)
            length = word >> 8
            if length > limit:
                raise ConnectionFault(h2.FRAME_SIZE_ERROR, "frame too large")
            start = position + 9
            stop = start + length
            if stop > end:
                break
            position = stop
            kind = word & 255
            try:
                if kind == 0 and flags <= 1 and self.plain:
                    stream = streams.get(stream_id)
                    if stream is None:
                        self._uncommon(kind, flags, stream_id & h2.STREAM_MAX, data[start:stop])
                    else:
                        self._data(stream, data, start, stop, flags)
                elif kind == 1 and flags == 4 and stream_id > self.last_stream and self.plain:
                    self._headers(stream_id, data[start:stop], False)
                else:
                    self._uncommon(kind, flags, stream_id & h2.STREAM_MAX, data[start:stop])
            except StreamFault as fault:
                self.reset(fault.stream_id, fault.code)
        return position

    def _data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        """The payload of one DATA frame, padding removed."""
        if stream.ended:
            raise StreamFault(h2.STREAM_CLOSED, stream.id)
        length = stop - start
        self.receive_window -= length
        if self.receive_window < self._receive_low:
            self._reopen_window()
        stream.receive_window -= length
        if stream.receive_window < 0:
            raise StreamFault(h2.FLOW_CONTROL_ERROR, stream.id)
        stream.received += length
        head = stream.head
        if last:
            stream.ended = True
            if head.content_length != stream.received and head.content_length >= 0:
                raise StreamFault(h2.PROTOCOL_ERROR, stream.id)
        elif not length:
            self.control_guard.spend()
        head.on_data(stream, buffer, start, stop, last)

    def _reopen_window(self) -> None:
        """The connection's window is for balance only: what memory a peer may take, its streams' windows say."""
        if self.receive_window < 0:
            raise ConnectionFault(h2.FLOW_CONTROL_ERROR, "connection window exceeded")
        self.write(h2.window_update(0, self.limits.connection_window - self.receive_window))
        self.receive_window = self.limits.connection_window

    def _receive_lost(self, length: int) -> None:
        """Padding, and data of streams that are gone: nobody takes it, but it came."""
        self.receive_window -= length
        if self.receive_window < self._receive_low:
            self._reopen_window()

    def replenish(self, stream: H2Stream) -> None:
        """Lets the peer send more on a stream whose data has been taken."""
        used = self.limits.stream_window - stream.receive_window
        if 2 * used >= self.limits.stream_window and not stream.ended:
            stream.receive_window += used
            self.write(h2.window_update(stream.id, used))

    def _headers(self, stream_id: int, block: bytes, last: bool) -> None:
        head = self.blocks.known.get(block) or self.blocks.head(block)
        if not stream_id & 1:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "clients open odd streams")
        if stream_id <= self.last_stream:
            self._trailers(stream_id, last)
            return
        if self.leaving or len(self.streams) + self.orphans >= self.limits.max_streams:
            self.last_stream = stream_id
            self.reset_guard.spend()
            raise StreamFault(h2.REFUSED_STREAM, stream_id)
        self.last_stream = stream_id
        if head.malformed:
            raise StreamFault(h2.PROTOCOL_ERROR, stream_id)
        stream = H2Stream(
            self, stream_id, head, self.output.initial_window, self.limits.stream_window
        )
        self.streams[stream_id] = stream
        if last:
            self._data(stream, b"", 0, 0, 1)

    def _trailers(self, stream_id: int, last: bool) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id not in self._recent:
                raise ConnectionFault(h2.STREAM_CLOSED, "HEADERS on a closed stream")
            return
        if stream.ended:
            raise StreamFault(h2.STREAM_CLOSED, stream_id)
        if not last:
            raise StreamFault(h2.PROTOCOL_ERROR, stream_id)
        self._data(stream, b"", 0, 0, 1)

    def _uncommon(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self.blocks.open_stream and kind != h2.CONTINUATION:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "a header block was interrupted")
        if kind == h2.DATA:
            self._uncommon_data(flags, stream_id, payload)
        elif kind == h2.HEADERS:
            self._uncommon_headers(flags, stream_id, payload)
        elif kind == h2.CONTINUATION:
            self._continuation(flags, stream_id, payload)
        else:
            self.control.frame(kind, flags, stream_id, payload)

    def _uncommon_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "DATA on stream 0")
        content = _unpadded(payload) if flags & h2.PADDED else payload
        stream = self.streams.get(stream_id)
        if stream is None:
            self.require_known(stream_id)
            self._receive_lost(len(payload))
            self.control_guard.spend()
            if stream_id not in self._recent:
                raise StreamFault(h2.STREAM_CLOSED, stream_id)
            return
        self._receive_lost(len(payload) - len(content))
        self._data(stream, content, 0, len(content), flags & h2.END_STREAM)

    def _uncommon_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "HEADERS on stream 0")
        if flags & h2.PADDED:
            payload = _unpadded(payload)
        if flags & h2.PRIORITY_FLAG:
            if len(payload) < 5:
                raise ConnectionFault(h2.FRAME_SIZE_ERROR, "HEADERS too short for its priority")
            payload = payload[5:]
        last = bool(flags & h2.END_STREAM)
        if flags & h2.END_HEADERS:
            self._headers(stream_id, payload, last)
        else:
            self.plain = False
            self.blocks.begin(stream_id, payload, last)

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        self.blocks.add(stream_id, payload)
        if flags & h2.END_HEADERS:
            self.plain = True
            self._headers(stream_id, self.blocks.complete(), self.blocks.ends_stream)

    def require_known(self, stream_id: int) -> None:
        if stream_id > self.last_stream or not stream_id & 1:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "frame on an idle stream")

    # -- writing

    def write(self, data: bytes) -> None:
        """Never raises: a peer that is gone takes no other request with it."""
        if not self.closing:
            self.transport.write(data)

    def write_pair(self, first: bytes, second: memoryview) -> None:
        if not self.closing:
            self.transport.writelines((first, second))

    # -- ends of streams

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
        self.transport.write(h2.goaway(self.last_stream, code, text))
        self.closing = True
        self._drop_all()
        self.transport.write_eof()

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
            self.control.announce_goaway()

    def leave(self) -> None:
        self.leaving = True
        self.leave_if_done()

    def leave_if_done(self) -> None:
        if self.leaving and not self.streams:
            self.close()


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(h2.PROTOCOL_ERROR, "padding longer than its frame")
    return payload[1 : len(payload) - payload[0]]
