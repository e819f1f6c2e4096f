"""What a connection sends: frames within the peer's windows, the rest waiting in its stream."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from inference_runtime.frontends.h2_frames import (
    DATA,
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    HEADERS,
    WINDOW_MAX,
    ConnectionFault,
    StreamFault,
    header,
)
from inference_runtime.frontends.h2_stream import H2Stream

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection

# Up to here an answer's parts are joined: a copy is cheaper than many small frames.
_JOIN_BELOW: Final = 1 << 20


class H2Output:
    """`clear` tells hot paths that they may write a whole answer themselves, windows permitting."""

    __slots__ = (
        "_blocked",
        "_connection",
        "clear",
        "credited",
        "frame_size",
        "initial_window",
        "paused",
        "progress",
        "table_update",
        "unsent",
        "window",
    )

    def __init__(self, connection: "H2Connection") -> None:
        self._connection = connection
        self._blocked: deque[H2Stream] = deque()
        self.window = DEFAULT_WINDOW
        self.credited = DEFAULT_WINDOW  # all that the peer ever allowed
        self.initial_window = DEFAULT_WINDOW
        self.frame_size = DEFAULT_FRAME_SIZE
        self.paused = False
        self.unsent = 0  # bytes waiting in all streams
        self.progress = 0  # grows with everything that had to wait and got out
        self.table_update = b""  # owed to a peer that shrank its header table
        self.clear = True

    @property
    def waiting(self) -> bool:
        return self.paused or bool(self._blocked)

    @property
    def sent_bytes(self) -> int:
        """Data, since the connection began."""
        return self.credited - self.window

    def headers(self, stream: H2Stream, block: bytes, *, last: bool) -> None:
        """One HEADERS frame; blocks of ours always fit into one."""
        if self.table_update:
            block = self.table_update + block
            self.table_update = b""
            self._settle()
        flags = END_HEADERS | END_STREAM if last else END_HEADERS
        self._connection.write(header(len(block), HEADERS, flags, stream.id) + block)
        if last:
            self._connection.finish(stream)

    def data(self, stream: H2Stream, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Queues behind what the stream has still to send, and sends what the windows allow."""
        if stream.out is None:
            stream.out = deque()
        if sum(map(len, parts)) <= _JOIN_BELOW:
            parts = (b"".join(parts),)
        was_idle = not stream.out
        stream.out.extend(memoryview(part) for part in parts if len(part))
        self.unsent += sum(map(len, parts))
        if was_idle:
            self._start(stream)

    def end(self, stream: H2Stream, trailers: bytes) -> None:
        """Ends the stream once its data is out."""
        stream.trailers = trailers
        if not stream.out:
            self.headers(stream, trailers, last=True)

    def queued_bytes(self, stream: H2Stream) -> int:
        return sum(map(len, stream.out)) if stream.out else 0

    def forget(self, stream: H2Stream) -> None:
        if stream.out:
            self.unsent -= self.queued_bytes(stream)
            stream.out.clear()
        if stream in self._blocked:
            self._blocked.remove(stream)
            self._settle()

    def credit(self, increment: int) -> None:
        if self.window + increment > WINDOW_MAX:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "connection window too large")
        self.window += increment
        self.credited += increment
        self.pump()

    def credit_stream(self, stream: H2Stream, increment: int) -> None:
        if stream.send_window + increment > WINDOW_MAX:
            raise StreamFault(FLOW_CONTROL_ERROR, stream.id)
        stream.send_window += increment
        if stream.out:
            self.pump()

    def resize_windows(self, size: int, streams: Sequence[H2Stream]) -> None:
        """SETTINGS_INITIAL_WINDOW_SIZE also moves the windows of open streams, below zero if need be."""
        change = size - self.initial_window
        self.initial_window = size
        for stream in streams:
            if stream.send_window + change > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "stream window too large")
            stream.send_window += change
        self.pump()

    def owe_table_update(self) -> None:
        self.table_update = b"\x20"  # our table is empty and stays so: its size is 0 from here on
        self._settle()

    def pause(self) -> None:
        self.paused = True
        self._settle()

    def resume(self) -> None:
        self.paused = False
        self.progress += 1
        self.pump()

    def pump(self) -> None:
        """One frame per waiting stream and round, so that no answer holds up the others."""
        idle = 0
        while self._blocked and not self.paused and self.window > 0 and idle < len(self._blocked):
            stream = self._blocked.popleft()
            idle = 0 if self._send_frame(stream) else idle + 1
            if stream.out:
                self._blocked.append(stream)
            elif stream.trailers is None:
                stream.head.on_drained(stream)
            elif not stream.closed:
                self.headers(stream, stream.trailers, last=True)
        self._settle()

    def _start(self, stream: H2Stream) -> None:
        if not self._blocked:
            while not self.paused and self._send_frame(stream):
                pass
        if stream.out:
            self._blocked.append(stream)
        self._settle()

    def _send_frame(self, stream: H2Stream) -> bool:
        """Sends one DATA frame; False when there is nothing to send or no window for it."""
        out = stream.out
        room = min(self.window, stream.send_window, self.frame_size)
        if not out or room <= 0 or stream.closed:
            return False
        part = out.popleft()
        if len(part) > room:
            out.appendleft(part[room:])
            part = part[:room]
        self.progress += 1
        self.unsent -= len(part)
        self.window -= len(part)
        stream.send_window -= len(part)
        self._connection.write_pair(header(len(part), DATA, 0, stream.id), part)
        return True

    def _settle(self) -> None:
        self.clear = not (self.paused or self._blocked or self.table_update)
