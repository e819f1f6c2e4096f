"""RFC 9113, section by section: what a peer may not do, and what becomes of it."""

import struct
from contextlib import closing
from typing import Any

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.hostile.wire.raw_h2 import INFER, PREFACE, STREAM, RawH2, frame, grpc_frame, message

PROTOCOL, INTERNAL, FLOW, TIMEOUT, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION = range(1, 10)
CALM = 11


@pytest.fixture
def raw(served):
    sockets = []

    def connect(**options):
        sock = served.connect_grpc()
        sockets.append(sock)
        return RawH2(sock, **options)

    yield connect
    for sock in sockets:
        sock.close()
    # Whatever was done to it, the server serves the next client.
    with closing(served.connect_grpc()) as sock:
        assert RawH2(sock).call() == "0"


@pytest.mark.parametrize(
    "opening",
    [b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\n", b"\x00" * 30, b"X"],
    ids=["HTTP/1.1", "wrong version", "zeros", "one byte"],
)
def test_no_preface_ends_the_connection(raw, opening):
    client = raw(start=False)
    client.send(opening)
    assert client.goaway() == PROTOCOL


@pytest.mark.parametrize(
    "first",
    [
        PingFrame(0, opaque_data=b"12345678").serialize(),
        SettingsFrame(0, flags=["ACK"]).serialize(),
        frame(1, 4, 1, b"\x82"),
        frame(99, 0, 0, b""),
    ],
    ids=["PING", "SETTINGS ACK", "HEADERS", "unknown"],
)
def test_settings_come_first(raw, first):
    client = raw(start=False)
    client.send(PREFACE + first)
    assert client.goaway() == PROTOCOL


def test_the_preface_may_come_in_pieces(raw):
    client = raw(start=False)
    for byte in PREFACE + SettingsFrame(0).serialize():
        client.send(bytes([byte]))
    assert client.call() == "0"


CONNECTION_ERRORS = {
    # 4.2, 6: sizes
    "frame larger than announced": (frame(0, 0, 1, length=65537), SIZE),
    "settings of five bytes": (frame(4, 0, 0, b"12345"), SIZE),
    "settings ack with content": (frame(4, 1, 0, b"123456"), SIZE),
    "ping of seven bytes": (frame(6, 0, 0, b"1234567"), SIZE),
    "window update of three bytes": (frame(8, 0, 0, b"123"), SIZE),
    "reset of three bytes": (frame(3, 0, 1, b"123"), SIZE),
    "goaway of seven bytes": (frame(7, 0, 0, b"1234567"), SIZE),
    "headers too short for priority": (frame(1, 0x24, 1, b"123"), SIZE),
    # 6: streams
    "data on stream 0": (frame(0, 0, 0, b"x"), PROTOCOL),
    "headers on stream 0": (frame(1, 4, 0, b"\x82"), PROTOCOL),
    "priority on stream 0": (frame(2, 0, 0, b"12345"), PROTOCOL),
    "reset on stream 0": (frame(3, 0, 0, b"1234"), PROTOCOL),
    "settings on a stream": (frame(4, 0, 1), PROTOCOL),
    "ping on a stream": (frame(6, 0, 1, b"12345678"), PROTOCOL),
    "goaway on a stream": (frame(7, 0, 1, b"12345678"), PROTOCOL),
    "push promise": (frame(5, 4, 1, b"\0\0\0\2\x82"), PROTOCOL),
    "even stream": (frame(1, 4, 2, b"\x82"), PROTOCOL),
    # 5.1: idle
    "data on an idle stream": (frame(0, 1, 5, b"x"), PROTOCOL),
    "reset of an idle stream": (frame(3, 0, 5, b"\0\0\0\x08"), PROTOCOL),
    "window update of an idle stream": (frame(8, 0, 5, b"\0\0\0\x08"), PROTOCOL),
    "window update of an even stream": (frame(8, 0, 2, b"\0\0\0\x08"), PROTOCOL),
    # 6.1, 6.2: padding
    "headers all padding": (frame(1, 0xC, 1, b"\x05abc"), PROTOCOL),
    "headers padding without content": (frame(1, 0xC, 1, b""), PROTOCOL),
    # 6.5: values
    "push neither on nor off": (SettingsFrame(0, settings={2: 2}).serialize(), PROTOCOL),
    "window above the largest": (SettingsFrame(0, settings={4: 2**31}).serialize(), FLOW),
    "frame size below the smallest": (SettingsFrame(0, settings={5: 16383}).serialize(), PROTOCOL),
    "frame size above the largest": (SettingsFrame(0, settings={5: 2**24}).serialize(), PROTOCOL),
    # 6.9: windows
    "window update by nothing": (frame(8, 0, 0, b"\0\0\0\0"), PROTOCOL),
    "connection window overflow": (frame(8, 0, 0, b"\x7f\xff\xff\xff"), FLOW),
    # 6.10: continuation
    "continuation alone": (frame(9, 4, 1, b"\x82"), PROTOCOL),
    "headers interrupted by ping": (
        frame(1, 0, 1, b"\x82") + frame(6, 0, 0, b"12345678"),
        PROTOCOL,
    ),
    "headers interrupted by data": (frame(1, 0, 1, b"\x82") + frame(0, 1, 1, b""), PROTOCOL),
    "headers interrupted by headers": (frame(1, 0, 1, b"\x82") + frame(1, 4, 3, b"\x82"), PROTOCOL),
    "headers interrupted by unknown": (frame(1, 0, 1, b"\x82") + frame(99, 0, 0), PROTOCOL),
    "continuation of another stream": (frame(1, 0, 1, b"\x82") + frame(9, 4, 3, b"\x82"), PROTOCOL),
    # 4.3: compression
    "no header at the index": (frame(1, 4, 1, b"\xff\x00"), COMPRESSION),
    "index 0": (frame(1, 4, 1, b"\x80"), COMPRESSION),
    "bad huffman": (frame(1, 4, 1, b"\x00\x81\xff\x01a"), COMPRESSION),
    "table larger than allowed": (frame(1, 4, 1, b"\x3f\xff\xff\x01"), COMPRESSION),
    "block cut short": (frame(1, 4, 1, b"\x00\x05ab"), COMPRESSION),
}


@pytest.mark.parametrize("case", CONNECTION_ERRORS)
def test_errors_of_the_connection_end_it_with_their_code(raw, case):
    data, code = CONNECTION_ERRORS[case]
    client = raw()
    client.send(data)
    assert client.goaway() == code


@pytest.mark.parametrize("padding", [b"\x05abc", b"", b"\x00"])
def test_padding_longer_than_its_data_ends_the_connection(raw, padding):
    client = raw()
    stream = client.open()
    client.send(frame(0, 8, stream, padding))
    if padding == b"\x00":
        assert client.alive()
    else:
        assert client.goaway() == PROTOCOL


def test_a_stream_number_going_backwards_ends_the_connection(raw):
    client = raw()
    assert client.call() == "0"
    client.open(stream_id=5)
    client.open(stream_id=3)
    assert client.goaway() == CLOSED


def test_headers_on_a_finished_stream_end_the_connection(raw):
    client = raw()
    client.open()
    client.data(1)
    client.until(lambda: client.ended(1))
    client.open(stream_id=1)
    assert client.goaway() == CLOSED


MALFORMED: dict[str, dict[str, Any]] = {
    "no method": {"drop": (":method",)},
    "no scheme": {"drop": (":scheme",)},
    "no path": {"drop": (":path",)},
    "empty path": {"path": ""},
    "capitals": {"extra": (("X-Capital", "1"),)},
    "unknown pseudo": {"extra": ((":other", "1"),)},
    "pseudo after regular": {"extra": ((":authority", "h"),), "drop": (":authority",)},
    "method twice": {"extra": ((":method", "POST"),)},
    "connection": {"extra": (("connection", "close"),)},
    "keep-alive": {"extra": (("keep-alive", "1"),)},
    "transfer-encoding": {"extra": (("transfer-encoding", "chunked"),)},
    "upgrade": {"extra": (("upgrade", "x"),)},
    "te of another kind": {"te": "gzip"},
    "line feed in a value": {"extra": (("x", "a\nb"),)},
    "null in a value": {"extra": (("x", "a\x00b"),)},
    "blank before a value": {"extra": (("x", " a"),)},
    "blank in a name": {"extra": (("x y", "a"),)},
    "empty name": {"extra": (("", "a"),)},
    "length that is none": {"extra": (("content-length", "x"),)},
    "two lengths": {"extra": (("content-length", "5"), ("content-length", "5"))},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_requests_are_reset_and_others_go_on(raw, case):
    client = raw()
    assert client.status(client.open(client.headers(**MALFORMED[case]))) == f"reset {PROTOCOL}"
    assert client.call() == "0"


@pytest.mark.parametrize("length", [0, 5, 10_000])
def test_data_must_be_as_long_as_announced(raw, length):
    client = raw()
    fields = client.headers(extra=(("content-length", str(length)),))
    assert client.call(fields) == f"reset {PROTOCOL}"
    good = client.headers(extra=(("content-length", str(len(message()))),))
    assert client.call(good) == "0"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({":method": "GET"}, "405"),
        ({"content-type": "application/json"}, "415"),
        ({"content-type": "application/grpcish"}, "415"),
        ({"drop": ("content-type",)}, "415"),
    ],
    ids=["GET", "json", "grpcish", "no type"],
)
def test_what_is_no_grpc_gets_an_http_status(raw, changes, status):
    client = raw()
    stream = client.open(client.headers(**changes))
    client.data(stream)
    client.until(lambda: client.ended(stream))
    assert dict(client.fields(stream))[":status"] == status
    assert client.call() == "0"


@pytest.mark.parametrize("subtype", ["", "+proto", ";charset=x"])
def test_grpc_has_subtypes(raw, subtype):
    client = raw()
    assert client.call(client.headers(**{"content-type": "application/grpc" + subtype})) == "0"


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"", "12"),
        (b"\x00", "12"),
        (message()[:-1], "12"),
        (message() + b"\x00", "12"),
        (message() + message(), "12"),
        (grpc_frame(b"\xff\xff"), "3"),
        (grpc_frame(b"", flag=2), "13"),
        (grpc_frame(b"", flag=1), "13"),
        (b"\x00\xff\xff\xff\xff", "8"),
    ],
    ids=[
        "nothing", "a piece of a prefix", "a piece of a message", "a message and a piece", "two messages",
        "no protobuf", "unknown flag", "compressed without encoding", "four gigabytes",
    ],
)  # fmt: skip
def test_wrong_grpc_framing_ends_the_call_only(raw, payload, status):
    client = raw()
    assert client.call(payload=payload) == status
    assert client.call() == "0"


def test_a_request_may_end_in_an_empty_frame_or_in_trailers(raw):
    client = raw()
    stream = client.open()
    client.data(stream, end=False)
    client.data(stream, b"")
    assert client.status(stream) == "0"
    stream = client.open()
    client.data(stream, end=False)
    client.open([("x-trailer", "1")], stream_id=stream, flags=("END_HEADERS", "END_STREAM"))
    assert client.status(stream) == "0"


def test_trailers_must_end_the_stream(raw):
    client = raw()
    stream = client.open()
    client.open([("x-trailer", "1")], stream_id=stream)
    assert client.status(stream) == f"reset {PROTOCOL}"
    assert client.call() == "0"


@pytest.mark.parametrize(
    "field",
    [
        (":path", "/"),
        (":other", "1"),
        ("X-Trailer", "1"),
        ("x y", "1"),
        ("", "1"),
        ("x", "a\nb"),
        ("x", " a"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip"),
    ],
    ids=repr,
)
def test_malformed_trailers_reset_their_stream_and_nothing_is_executed(raw, served, field):
    client = raw()
    for _ in range(2):
        stream = client.open()
        client.data(stream, end=False)
        client.open([field], stream_id=stream, flags=("END_HEADERS", "END_STREAM"))
        assert client.status(stream) == f"reset {PROTOCOL}"
    assert served.core.seen == []
    assert client.call() == "0"


def test_trailers_change_the_header_table_like_headers(raw):
    client = raw()
    for number in range(3):
        stream = client.open(client.headers(extra=[("x-number", str(number))]))
        client.data(stream, end=False)
        trailer = [("x-trailer", str(number))]
        client.open(trailer, stream_id=stream, flags=("END_HEADERS", "END_STREAM"))
        assert client.status(stream) == "0"
        assert client.call(client.headers(extra=trailer)) == "0"


def test_data_after_the_end_is_an_error_of_the_stream(raw, served):
    client = raw()
    stream = client.open()
    client.data(stream, message("held"))
    client.data(stream)
    assert client.status(stream) == f"reset {CLOSED}"
    assert client.call() == "0"
    served.wait_until(lambda: len(served.core.cancelled) == 1)


def test_data_on_a_finished_stream_is_an_error_of_the_stream(raw):
    client = raw()
    assert client.call() == "0"
    client.data(1)
    client.ping()
    assert [f.error_code for f in client.of(1) if isinstance(f, RstStreamFrame)] == [CLOSED]
    assert client.call() == "0"


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_messages_may_be_cut_anywhere_and_padded(raw, pieces):
    client = raw()
    stream = client.open()
    text = message(elements=5000)
    size = max(len(text) // pieces, 1)
    for start in range(0, len(text), size):
        piece = DataFrame(stream, data=text[start : start + size], pad_length=start % 3)
        if start % 3:
            piece.flags.add("PADDED")
        client.send(piece.serialize())
    client.data(stream, b"")
    assert client.status(stream) == "0"


def test_header_blocks_may_be_cut_anywhere(raw):
    client = raw()
    block = client.encoder.encode(client.headers())
    for cut in range(len(block)):
        stream = client.next_stream
        client.open(block=block[:cut], flags=())
        rest = ContinuationFrame(stream, data=block[cut:])
        rest.flags.add("END_HEADERS")
        client.send(rest.serialize())
        client.data(stream)
        assert client.status(stream) == "0"
        block = client.encoder.encode(client.headers())


def test_priority_is_read_and_means_nothing(raw):
    client = raw()
    client.send(PriorityFrame(1, depends_on=3, stream_weight=5).serialize())
    block = client.encoder.encode(client.headers())
    opening = HeadersFrame(1, data=block, flags=("END_HEADERS", "PRIORITY"))
    client.send(opening.serialize())
    client.data(1)
    assert client.status(1) == "0"
    client.next_stream = 3
    client.send(frame(2, 0, 3, b"1234"))
    assert client.status(3) == f"reset {SIZE}"


def test_unknown_frames_settings_and_flags_are_ignored(raw):
    client = raw(settings={77: 5})
    client.send(frame(99, 0xFF, 7, b"abc") + frame(4, 0xF0, 0, struct.pack(">HI", 99, 1)))
    client.send(frame(6, 0xF0, 0, b"12345678"))
    assert client.call() == "0"


def test_the_reserved_bit_is_ignored(raw):
    client = raw()
    block = client.encoder.encode(client.headers())
    client.send(frame(1, 4, 1 | 1 << 31, block) + frame(0, 1, 1 | 1 << 31, message()))
    client.next_stream = 3
    assert client.status(1) == "0"


def test_a_window_update_by_nothing_resets_its_stream(raw):
    client = raw()
    stream = client.open()
    client.send(frame(8, 0, stream, b"\0\0\0\0"))
    assert client.status(stream) == f"reset {PROTOCOL}"
    assert client.call() == "0"


def test_a_stream_window_overflow_resets_its_stream(raw):
    client = raw()
    stream = client.open()
    client.send(frame(8, 0, stream, b"\x7f\xff\xff\xff"))
    assert client.status(stream) == f"reset {FLOW}"
    assert client.call() == "0"


def test_a_changed_initial_window_must_not_overflow_open_streams(raw):
    client = raw()
    stream = client.open()
    client.send(WindowUpdateFrame(stream, window_increment=2**31 - 1 - 65535).serialize())
    client.send(SettingsFrame(0, settings={4: 65536}).serialize())
    assert client.goaway() == FLOW


def test_window_updates_of_finished_streams_are_ignored(raw):
    client = raw()
    assert client.call() == "0"
    client.send(WindowUpdateFrame(1, window_increment=5).serialize())
    client.send(RstStreamFrame(1, error_code=CANCEL).serialize())
    assert client.alive()


def test_a_peer_that_goes_away_is_served_to_the_end_and_let_go(raw, served):
    client = raw()
    stream = client.open()
    client.data(stream, message("held"))
    client.send(GoAwayFrame(0, last_stream_id=0).serialize())
    served.wait_until(lambda: len(served.core.waiting) == 1)
    served.call(served.core.release)
    assert client.status(stream) == "0"
    assert client.sock.recv(1) == b""


def test_an_unknown_encoding_is_told_and_the_known_ones(raw):
    client = raw()
    stream = client.open(client.headers(extra=(("grpc-encoding", "snappy"),)))
    client.data(stream)
    assert client.status(stream) == "12"
    assert "gzip" in dict(RawH2.fields(client, stream) or {}).get("grpc-accept-encoding", "gzip")


@pytest.mark.parametrize("timeout", ["1", "1x", "123456789S", "-1S", "S"])
def test_a_malformed_deadline_ends_the_call(raw, timeout):
    client = raw()
    assert client.call(client.headers(extra=(("grpc-timeout", timeout),))) == "13"


def test_streams_end_inside_a_message_with_an_error(raw):
    client = raw()
    stream = client.open(client.headers(STREAM))
    client.data(stream, message() + b"\x00\x00")
    assert client.status(stream) == "13"


def test_paths_are_compared_whole(raw):
    client = raw()
    for path in (INFER + "/", INFER + "?x", INFER.lower(), "/", "*"):
        assert client.call(client.headers(path)) == "12"
