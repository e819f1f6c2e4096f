"""HTTP/2 and gRPC for the bare probe: unary calls of well-behaved clients, and no more than that."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final

from hpack import Decoder

_PREFACE: Final = 24
_WINDOW: Final = 1 << 30
_CREDIT: Final = 1 << 28
_FRAME: Final = 16384
_pack: Final = struct.Struct(">I").pack
_unpack: Final = struct.Struct(">IBI").unpack_from
_SETTINGS: Final = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + struct.pack(">HI", 4, 1 << 24)
_ACK: Final = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00"
_CONNECTION_CREDIT: Final = b"\x00\x00\x04\x08\x00\x00\x00\x00\x00"
_HEADERS: Final = b"\x88\x0f\x10\x10application/grpc"  # :status 200, content-type
_TRAILERS: Final = b"\x00\x0bgrpc-status\x010"
_HEADERS_MARK: Final = _pack(len(_HEADERS))[1:] + b"\x01\x04"
_TRAILERS_MARK: Final = _pack(len(_TRAILERS))[1:] + b"\x01\x05"

OnMessage = Callable[["Http2", int, bytes], None]


class Http2(asyncio.Protocol):
    """Blocks of headers are remembered while the dynamic table stays as it is."""

    __slots__ = (
        "_decoder",
        "_known",
        "_on_message",
        "_received",
        "_rest",
        "_started",
        "_streams",
        "_transport",
    )

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._transport: Any = None
        self._decoder = Decoder()
        self._known: set[bytes] = set()
        self._streams: dict[int, bytes] = {}
        self._rest = b""
        self._received = 0
        self._started = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(_SETTINGS + _CONNECTION_CREDIT + _pack(_WINDOW))

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        position, end = 0, len(data)
        if not self._started:
            if end < _PREFACE:
                self._rest = data
                return
            self._started = True
            position = _PREFACE
        while end - position >= 9:
            word, flags, stream = _unpack(data, position)
            start = position + 9
            stop = start + (word >> 8)
            if stop > end:
                break
            position = stop
            kind = word & 255
            if kind == 0:
                self._data(stream, data[start:stop], flags)
            elif kind == 1:
                self._headers(stream, data[start:stop])
            else:
                self._control(kind, flags, data[start:stop])
        if position < end:
            self._rest = data[position:]

    def _data(self, stream: int, piece: bytes, flags: int) -> None:
        self._received += len(piece)
        if self._received > _CREDIT:
            self._transport.write(_CONNECTION_CREDIT + _pack(self._received))
            self._received = 0
        before = self._streams[stream]
        if not flags & 1:
            self._streams[stream] = before + piece
            return
        del self._streams[stream]
        self._on_message(self, stream, before[5:] + piece if before else piece[5:])

    def _headers(self, stream: int, block: bytes) -> None:
        if block not in self._known:
            table = self._decoder.header_table
            before = len(table.dynamic_entries)
            self._decoder.decode(block, raw=True)
            if len(table.dynamic_entries) == before:
                self._known.add(block)
            else:
                self._known.clear()
        self._streams[stream] = b""

    def _control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == 4 and not flags & 1:
            self._transport.write(_ACK)
        elif kind == 6 and not flags & 1:
            self._transport.write(b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + payload)

    def reply(self, stream: int, message: bytes) -> None:
        if self._transport.is_closing():
            return
        number, size = _pack(stream), len(message)
        if size + 5 <= _FRAME:
            self._transport.write(
                b"".join(
                    (_HEADERS_MARK, number, _HEADERS, _pack(size + 5)[1:], b"\x00\x00", number,
                     b"\x00", _pack(size), message, _TRAILERS_MARK, number, _TRAILERS)
                )
            )  # fmt: skip
            return
        raise ValueError("the probe's answers fit into one frame")
