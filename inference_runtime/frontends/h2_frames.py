"""HTTP/2 on the wire: numbers of RFC 9113, and frames as bytes."""

from collections.abc import Iterable
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER: Final = 9
DEFAULT_FRAME_SIZE: Final = 16384
DEFAULT_WINDOW: Final = 65535
WINDOW_MAX: Final = 2**31 - 1
STREAM_MAX: Final = 2**31 - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
ENHANCE_YOUR_CALM: Final = 0xB

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

# (length << 8 | type), flags, stream: the nine bytes in one go. The stream is read as signed, so that
# the reserved bit, which must be ignored, makes it negative and keeps it off the usual way.
unpack_header: Final = Struct(">IBi").unpack_from
_HEADER: Final = Struct(">IBI").pack
pack_u32: Final = Struct(">I").pack
unpack_u32: Final = Struct(">I").unpack_from
_SETTING: Final = Struct(">HI")


class ConnectionFault(Exception):
    """The peer broke the protocol in a way that ends the connection, with this error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class StreamFault(Exception):
    """The peer broke the protocol in a way that ends one stream."""

    def __init__(self, code: int, stream_id: int) -> None:
        super().__init__(f"stream {stream_id}: error {code}")
        self.code = code
        self.stream_id = stream_id


def header(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    return _HEADER(length << 8 | kind, flags, stream_id)


def header_mark(length: int, kind: int, flags: int) -> bytes:
    """The first five bytes of a frame; the stream's four follow."""
    return _HEADER(length << 8 | kind, flags, 0)[:5]


def settings(entries: Iterable[tuple[int, int]]) -> bytes:
    payload = b"".join(_SETTING.pack(key, value) for key, value in entries)
    return header(len(payload), SETTINGS, 0, 0) + payload


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    return list(_SETTING.iter_unpack(payload))


SETTINGS_ACK: Final = header(0, SETTINGS, ACK, 0)


def ping(payload: bytes, *, ack: bool) -> bytes:
    return header(8, PING, ACK if ack else 0, 0) + payload


DRAIN_PING: Final = b"switchyd"  # its answer tells that the peer has read our GOAWAY
KEEPALIVE_PING: Final = b"keepaliv"


def goaway(last_stream: int, code: int, text: str = "") -> bytes:
    debug = text.encode()[:256]
    return header(8 + len(debug), GOAWAY, 0, 0) + pack_u32(last_stream) + pack_u32(code) + debug


def rst_stream(stream_id: int, code: int) -> bytes:
    return header(4, RST_STREAM, 0, stream_id) + pack_u32(code)


def window_update(stream_id: int, increment: int) -> bytes:
    return header(4, WINDOW_UPDATE, 0, stream_id) + pack_u32(increment)
