"""Frames that manage a connection instead of carrying requests."""

from typing import TYPE_CHECKING

from inference_runtime.frontends import h2_frames as h2
from inference_runtime.frontends.h2_frames import ConnectionFault, StreamFault
from inference_runtime.frontends.h2_pings import PingJudge

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection


class ControlFrames:
    """SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, PRIORITY of one connection."""

    __slots__ = (
        "_connection",
        "_handlers",
        "_pings",
        "_settings",
    )

    def __init__(self, connection: "H2Connection") -> None:
        self._connection = connection
        self._pings = PingJudge(connection)
        self._handlers = {
            h2.PRIORITY: self._priority,
            h2.RST_STREAM: self._rst_stream,
            h2.SETTINGS: self._on_settings,
            h2.PUSH_PROMISE: self._push_promise,
            h2.PING: self._ping,
            h2.GOAWAY: self._goaway,
            h2.WINDOW_UPDATE: self._window_update,
        }
        self._settings = {
            h2.HEADER_TABLE_SIZE: self._set_table_size,
            h2.ENABLE_PUSH: self._set_push,
            h2.INITIAL_WINDOW_SIZE: self._set_window,
            h2.MAX_FRAME_SIZE: self._set_frame_size,
        }

    def frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        handler = self._handlers.get(kind)
        if handler is None:
            self._connection.control_guard.spend()  # unknown types are ignored (RFC 9113, 4.1)
            return
        handler(flags, stream_id, payload)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % 6 or (flags & h2.ACK and payload):
            raise ConnectionFault(h2.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        self._connection.control_guard.spend()
        if flags & h2.ACK:
            return
        for key, value in h2.read_settings(payload):
            setter = self._settings.get(key)
            if setter is not None:
                setter(value)
        self._connection.write(h2.SETTINGS_ACK)

    def _set_table_size(self, value: int) -> None:
        if value < 4096:
            self._connection.output.owe_table_update()

    def _set_push(self, value: int) -> None:
        if value > 1:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")

    def _set_window(self, value: int) -> None:
        if value > h2.WINDOW_MAX:
            raise ConnectionFault(h2.FLOW_CONTROL_ERROR, "initial window too large")
        connection = self._connection
        connection.output.resize_windows(value, list(connection.streams.values()))

    def _set_frame_size(self, value: int) -> None:
        if not h2.DEFAULT_FRAME_SIZE <= value < 1 << 24:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "frame size out of range")
        self._connection.output.frame_size = value

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(h2.FRAME_SIZE_ERROR, "PING of a wrong size")
        connection = self._connection
        connection.control_guard.spend()
        if not flags & h2.ACK:
            self._pings.received()
            connection.write(h2.ping(payload, ack=True))
        elif payload == h2.DRAIN_PING and connection.draining:
            connection.write(h2.goaway(connection.reader.last_stream, h2.NO_ERROR))
            connection.leave()

    def _goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(h2.FRAME_SIZE_ERROR, "GOAWAY too short")
        self._connection.control_guard.spend()
        self._connection.leave()

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(h2.FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size")
        increment = h2.unpack_u32(payload)[0] & h2.WINDOW_MAX
        connection = self._connection
        if stream_id == 0:
            if increment == 0:
                raise ConnectionFault(h2.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            connection.output.credit(increment)
            return
        connection.reader.require_known(stream_id)
        stream = connection.streams.get(stream_id)
        if stream is None:
            connection.control_guard.spend()
            return
        if increment == 0:
            raise StreamFault(h2.PROTOCOL_ERROR, stream_id)
        connection.output.credit_stream(stream, increment)

    def _rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "RST_STREAM on stream 0")
        if len(payload) != 4:
            raise ConnectionFault(h2.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        self._connection.reader.require_known(stream_id)
        self._connection.reset_guard.spend()
        self._connection.drop(stream_id)

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ConnectionFault(h2.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._connection.control_guard.spend()
        if len(payload) != 5:
            raise StreamFault(h2.FRAME_SIZE_ERROR, stream_id)

    def _push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionFault(h2.PROTOCOL_ERROR, "clients do not push")
