"""Frames between the server and a stub: a kind, a JSON text, and the bytes of small tensors behind it.

Neither side believes the other's sizes without a bound; what is large lies in an arena and is only
pointed at.
"""

import enum
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct("<BxxxIQ")
MAX_TEXT = 256 << 20
MAX_PAYLOAD = 256 << 20
_MAX_PARTS = 512  # the kernel takes 1024 in one call


class Kind(enum.IntEnum):
    # On the channel of executions, one question and one answer at a time: to the stub …
    START = 1
    COMPLETE_CONFIG = 2
    EXECUTE = 3
    FINALIZE = 4
    # … and from it.
    ALIVE = 10
    STARTED = 11
    FAILED = 12
    DONE = 13
    # On the side channel, at any time: from the stub …
    RESPONSE = 20
    CALL = 21
    CANCEL_CALL = 22
    ASK = 23
    TELL = 24
    READY_ANSWER = 25
    # … to it …
    CALL_ANSWER = 30
    REPLY = 31
    CHECK_READY = 32
    TRIM = 33
    # … and both ways.
    RELEASED = 40


class BrokenFrame(Exception):
    """The other side says what no frame can be."""


def frame(kind: Kind, text: bytes, payload: Sequence[Buffer] = ()) -> list[Buffer]:
    size = sum(map(len, payload))
    return [HEADER.pack(kind, len(text), size) + text, *payload]


def send(sock: socket.socket, parts: Sequence[Buffer]) -> None:
    """Blocking. Raises OSError when the other side is gone."""
    if len(parts) > _MAX_PARTS:
        parts = [parts[0], b"".join(parts[1:])]
    left = sum(map(len, parts))
    sent = sock.sendmsg(parts)
    while sent < left:
        left -= sent
        parts = _rest(parts, sent)
        sent = sock.sendmsg(parts)


def _rest(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []


def receive(sock: socket.socket) -> tuple[int, bytes, bytearray]:
    """Blocking. Raises EOFError when the other side is gone, TimeoutError by the socket's time limit."""
    kind, text_size, payload_size = _checked(bytes(_exactly(sock, HEADER.size)))
    text = bytes(_exactly(sock, text_size)) if text_size else b""
    payload = _exactly(sock, payload_size) if payload_size else bytearray()
    return kind, text, payload


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    got = sock.recv_into(data)
    if got < size:
        if not got:
            raise EOFError
        view = memoryview(data)[got:]
        while view:
            got = sock.recv_into(view)
            if not got:
                raise EOFError
            view = view[got:]
    return data


def _checked(header: Buffer) -> tuple[int, int, int]:
    kind, text_size, payload_size = HEADER.unpack(header)
    if text_size > MAX_TEXT or payload_size > MAX_PAYLOAD:
        raise BrokenFrame(f"a frame of {text_size} and {payload_size} bytes")
    return kind, text_size, payload_size


class FrameReader:
    """Frames out of a stream that comes in pieces."""

    def __init__(self) -> None:
        self._pieces = bytearray()
        self._wanted = HEADER.size

    def feed(self, data: Any) -> Iterator[tuple[int, bytes, bytearray]]:
        """Raises BrokenFrame."""
        pieces = self._pieces
        pieces += data
        at = 0
        try:
            while len(pieces) - at >= self._wanted:
                kind, text_size, payload_size = _checked(pieces[at : at + HEADER.size])
                middle = at + HEADER.size + text_size
                end = middle + payload_size
                if len(pieces) < end:
                    self._wanted = end - at
                    return
                found = kind, bytes(pieces[at + HEADER.size : middle]), pieces[middle:end]
                at = end
                self._wanted = HEADER.size
                yield found
        finally:
            del pieces[:at]
