"""Frames of one connection as they come in: requests opened, their data handed on, all else checked."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inference_runtime.frontends import h2_frames as h2
from inference_runtime.frontends.h2_control import ControlFrames
from inference_runtime.frontends.h2_frames import (
    ConnectionFault,
    StreamFault,
    unpack_header,
    unpack_u32,
)
from inference_runtime.frontends.h2_headers import Describe, HeaderBlocks
from inference_runtime.frontends.h2_stream import H2Stream, StreamHead

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection

OnWhole = Callable[[H2Stream, "WholeStream", bytes], None]


class WholeStream:
    """A request that came in one piece, its headers and all of its data; `start` is how the data begins.

    Clients send the same again and again but for the stream's number and what follows `start`, so a connection
    that knows its last one compares, and `run(stream, whole, buffer)` does the rest. The data begins at `at`.
    """

    __slots__ = (
        "at", "block", "context", "frame", "head", "length", "middle", "run", "size", "start",
    )  # fmt: skip

    def __init__(
        self, head: StreamHead, buffer: bytes, at: int, start: bytes, run: OnWhole
    ) -> None:
        self.head = head
        self.at = at
        self.frame = buffer[:5]  # of the headers: length, type, flags
        self.block = buffer[9 : at - 9]
        self.middle = buffer[9 : at - 4]  # the block, then the same of the data's frame
        self.start = start
        self.size = len(buffer)
        self.length = self.size - at
        self.context: Any = None  # whatever `run` needs
        self.run = run


class FrameReader:
    """`plain`: any frame may come next, which is so from the first SETTINGS on, but not inside a header
    block. Streams are found and kept in the connection's own table."""

    __slots__ = (
        "_blocks",
        "_connection",
        "_control",
        "_frame_limit",
        "_known",
        "_streams",
        "_window",
        "_window_low",
        "_window_size",
        "last_stream",
        "plain",
        "started",
        "whole",
    )

    def __init__(self, connection: "H2Connection", describe: Describe) -> None:
        limits = connection.limits
        self._connection = connection
        self._control = ControlFrames(connection)
        self._blocks = HeaderBlocks(describe, limits)
        self._known = self._blocks.known
        self._streams = connection.streams
        self._frame_limit = limits.max_frame_size
        self._window = self._window_size = limits.connection_window
        self._window_low = limits.connection_window // 2
        self.last_stream = 0
        self.started = False
        self.plain = False
        self.whole: WholeStream | None = None  # what this client asked for last, if it may again

    def read(self, data: bytes) -> int:
        """Returns where the first incomplete frame starts."""
        if not self.started:
            return self._start(data)
        connection = self._connection
        end = len(data)
        whole = self.whole
        if (
            whole is not None
            and end == whole.size
            and data.startswith(whole.start, whole.at)
            and self._again(whole, data)
        ):
            return end
        streams = self._streams
        limit = self._frame_limit
        position = 0
        while end - position >= 9 and not connection.closing:
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
                if kind == 0 and flags <= 1 and self.plain and stream_id in streams:
                    self._data(streams[stream_id], data, start, stop, flags)
                elif kind == 1 and flags == 4 and self.plain and stream_id > self.last_stream:
                    self._open(stream_id, data[start:stop], False)
                else:
                    self._uncommon(kind, flags, stream_id & h2.STREAM_MAX, data[start:stop])
            except StreamFault as fault:
                # Provoking resets is as cheap for the peer as sending them, and costs us the same.
                connection.reset_guard.spend()
                connection.reset(fault.stream_id, fault.code)
        return position

    def came_whole(
        self, stream: H2Stream, buffer: bytes, start: int, prefix: bytes, run: OnWhole
    ) -> WholeStream | None:
        """The data of `stream` ends with `buffer`. If nothing but the request is in it, more like it, whose
        data begin with `prefix`, go straight to `run`. Which stream the headers open is looked at then."""
        at = start - 9
        head: StreamHead = stream.head
        if (
            at >= 9
            and buffer[3:5] == b"\x01\x04"
            and at - 9 == int.from_bytes(buffer[:3], "big")
            and self._known.get(buffer[9:at]) is head
        ):
            self.whole = WholeStream(head, buffer, start, prefix, run)
            return self.whole
        return None

    def _again(self, whole: WholeStream, data: bytes) -> bool:
        """What `_open` and `_data` do, for a request like the one before it. False: it is not."""
        at = whole.at
        number = data[5:9]
        connection = self._connection
        if not (
            data.startswith(whole.frame)
            and data.startswith(whole.middle, 9)
            and data.startswith(number, at - 4)
            and self.plain
            and self._known.get(whole.block) is whole.head
        ):
            return False
        stream_id = unpack_u32(number)[0]
        if (
            not stream_id & 1
            or not self.last_stream < stream_id <= h2.STREAM_MAX
            or connection.closing
            or not connection.has_room()
        ):
            return False
        self.last_stream = stream_id
        length = whole.length
        self._window -= length
        if self._window < self._window_low:
            self._reopen_window()
        output, limits = connection.output, connection.limits
        stream = H2Stream(
            connection, stream_id, whole.head, output.initial_window, limits.stream_window - length
        )
        stream.received = length
        stream.ended = True
        self._streams[stream_id] = stream
        whole.run(stream, whole, data)
        return True

    def _start(self, data: bytes) -> int:
        size = len(h2.PREFACE)
        if not h2.PREFACE.startswith(data[:size]):
            raise ConnectionFault(h2.PROTOCOL_ERROR, "no HTTP/2 preface")
        if len(data) < size + h2.FRAME_HEADER:
            return 0
        if data[size + 3] != h2.SETTINGS or data[size + 4] & h2.ACK:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        self.started = self.plain = True
        return size + self.read(data[size:])

    def _data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        """The payload of one DATA frame, padding removed."""
        if stream.ended:
            raise StreamFault(h2.STREAM_CLOSED, stream.id)
        length = stop - start
        self._window -= length
        if self._window < self._window_low:
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
            self._connection.control_guard.spend()
        head.on_data(stream, buffer, start, stop, last)

    def _reopen_window(self) -> None:
        """The connection's window is for balance only: what memory a peer may take, its streams' windows say."""
        if self._window < 0:
            raise ConnectionFault(h2.FLOW_CONTROL_ERROR, "connection window exceeded")
        self._connection.write(h2.window_update(0, self._window_size - self._window))
        self._window = self._window_size

    def _receive_lost(self, length: int) -> None:
        """Padding, and data of streams that are gone: nobody takes it, but it came."""
        self._window -= length
        if self._window < self._window_low:
            self._reopen_window()

    def _open(self, stream_id: int, block: bytes, last: bool) -> None:
        if not stream_id & 1:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "clients open odd streams")
        if stream_id <= self.last_stream:
            self._trailers(stream_id, block, last)
            return
        head = self._known.get(block) or self._blocks.head(block)
        self.last_stream = stream_id
        connection = self._connection
        if not connection.has_room():
            raise StreamFault(h2.REFUSED_STREAM, stream_id)
        if head.malformed:
            raise StreamFault(h2.PROTOCOL_ERROR, stream_id)
        window = connection.output.initial_window
        stream = H2Stream(connection, stream_id, head, window, connection.limits.stream_window)
        self._streams[stream_id] = stream
        if last:
            self._data(stream, b"", 0, 0, 1)

    def _trailers(self, stream_id: int, block: bytes, last: bool) -> None:
        well_formed = self._blocks.trailers(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            if not self._connection.ended_early(stream_id):
                raise ConnectionFault(h2.STREAM_CLOSED, "HEADERS on a closed stream")
            return
        if stream.ended:
            raise StreamFault(h2.STREAM_CLOSED, stream_id)
        if not (last and well_formed):
            raise StreamFault(h2.PROTOCOL_ERROR, stream_id)
        self._data(stream, b"", 0, 0, 1)

    def _uncommon(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._blocks.open_stream and kind != h2.CONTINUATION:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "a header block was interrupted")
        if kind == h2.DATA:
            self._uncommon_data(flags, stream_id, payload)
        elif kind == h2.HEADERS:
            self._uncommon_headers(flags, stream_id, payload)
        elif kind == h2.CONTINUATION:
            self._continuation(flags, stream_id, payload)
        else:
            self._control.frame(kind, flags, stream_id, payload)

    def _uncommon_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "DATA on stream 0")
        content = _unpadded(payload) if flags & h2.PADDED else payload
        stream = self._streams.get(stream_id)
        if stream is None:
            self.require_known(stream_id)
            self._receive_lost(len(payload))
            self._connection.control_guard.spend()
            if not self._connection.ended_early(stream_id):
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
            self._open(stream_id, payload, last)
        else:
            self.plain = False
            self._blocks.begin(stream_id, payload, last)

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._blocks.add(stream_id, payload)
        if flags & h2.END_HEADERS:
            self.plain = True
            self._open(stream_id, self._blocks.complete(), self._blocks.ends_stream)

    def require_known(self, stream_id: int) -> None:
        if stream_id > self.last_stream or not stream_id & 1:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "frame on an idle stream")


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(h2.PROTOCOL_ERROR, "padding longer than its frame")
    return payload[1 : len(payload) - payload[0]]
