"""A request like the one before it takes a short way; what comes out is what the long way gives.

The oracle is the same connection fed byte by byte, where no request ever comes whole.
"""

import struct

import hpack
import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.frontends.h2_connection import H2Connection
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.http1_application import HttpShared
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.http_plan import HttpPlan, WholeRequest
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.protocol.http_codec import HttpInfer
from inference_runtime.spec.messages import RequestHead
from tests.inference_runtime.frontends.test_http1_connection import Joins, Transport

PREFIX = b"same"


class CallHead:
    """Records requests, and tells the reader of those that came whole."""

    malformed = False
    content_length = -1
    patient = False

    def __init__(self, fields, log, shortcuts):
        self.fields = fields
        self.log = log
        self.shortcuts = shortcuts

    def on_data(self, stream, buffer, start, stop, last):
        self.log.append((stream.id, self.fields, buffer[start:stop], stream.received, stream.ended))
        if last:
            if stop == len(buffer) and buffer.startswith(PREFIX, start):
                reader = stream.connection.reader
                whole = reader.came_whole(stream, buffer, start, PREFIX, self.whole)
                if whole is not None:
                    whole.context = self
            stream.connection.finish(stream)

    def whole(self, stream, whole, buffer):
        self.shortcuts.append(stream.id)
        head = whole.context
        data = buffer[whole.at :]
        self.log.append((stream.id, head.fields, data, stream.received, stream.ended))
        stream.connection.finish(stream)

    def on_reset(self, stream):
        self.log.append((stream.id, "reset"))

    def on_drained(self, stream):
        raise AssertionError("nothing waits")


class Client:
    def __init__(self, max_streams=100):
        self.log, self.shortcuts = [], []
        self.connection = H2Connection(
            lambda fields: CallHead(fields, self.log, self.shortcuts),
            H2Limits(max_streams=max_streams),
            H2Timeouts(),
            Joins(),
        )
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    def feed(self, data, step):
        for start in range(0, len(data), step):
            self.connection.data_received(data[start : start + step])

    def outcome(self):
        return (
            self.log,
            self.transport.out,
            self.connection.closing,
            sorted(self.connection.streams),
        )


def frame(kind, flags, stream_id, payload):
    size = struct.pack(">I", len(payload))[1:]
    return size + bytes([kind, flags]) + struct.pack(">I", stream_id) + payload


FIELDS = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), ("x", "y")]
START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
KINDS = [
    "usual", "usual", "usual", "usual", "other path", "new header", "other data", "shorter",
    "even", "again", "lower", "reserved bit", "other stream's data", "no end", "padded", "two at once",
    "window update between",
]  # fmt: skip


def requests(kinds, data):
    """The bytes of each step, by one encoder, so that header tables move as a client's would."""
    encoder = hpack.Encoder()
    number = 1
    pieces = [START]
    for kind in kinds:
        fields = list(FIELDS)
        payload = PREFIX + data.draw(st.binary(min_size=4, max_size=4))
        if kind == "other path":
            fields[2] = (":path", "/b")
        elif kind == "new header":
            fields.append(("h", data.draw(st.sampled_from("abc"))))
        elif kind == "other data":
            payload = b"else" + payload[4:]
        elif kind == "shorter":
            payload = payload[:-1]
        block = encoder.encode(fields)
        stream_id = {"even": number + 1, "again": number - 2, "lower": 1}.get(kind, number)
        opened = stream_id | 1 << 31 if kind == "reserved bit" else stream_id
        theirs = max(stream_id - 2, 1) if kind == "other stream's data" else stream_id
        between = frame(8, 0, 0, b"\0\0\0\1") if kind == "window update between" else b""
        if kind == "padded":
            payload = b"\2" + payload + b"\0\0"
        flags = {"no end": 0, "padded": 9}.get(kind, 1)
        piece = frame(1, 4, opened, block) + between + frame(0, flags, theirs, payload)
        number += 2
        if kind == "two at once":
            again = encoder.encode(fields)
            piece += frame(1, 4, number, again) + frame(0, 1, number, payload)
            number += 2
        pieces.append(piece)
    return pieces


@settings(max_examples=300, deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), max_size=12), data=st.data())
def test_frames_mean_the_same_whole_and_byte_by_byte(kinds, data):
    whole, split = Client(), Client()
    for piece in requests(["usual"] * 3 + kinds, data):
        whole.feed(piece, len(piece))
        split.feed(piece, 1)
    assert whole.outcome() == split.outcome()
    assert split.shortcuts == []


def test_the_third_usual_request_takes_the_short_way():
    client = Client()
    encoder = hpack.Encoder()
    client.feed(START, 1000)
    for number in (1, 3, 5, 7):
        block = encoder.encode(FIELDS)
        piece = frame(1, 4, number, block) + frame(0, 1, number, PREFIX + bytes([number] * 4))
        client.feed(piece, 1000)
    # The first block fills the header table, the second is the one that stays.
    assert client.shortcuts == [5, 7]
    assert [entry[2] for entry in client.log] == [PREFIX + bytes([n] * 4) for n in (1, 3, 5, 7)]


def test_the_short_way_refuses_streams_beyond_the_limit():
    client = Client(max_streams=2)
    encoder = hpack.Encoder()
    client.feed(START, 1000)
    for number in (1, 3, 5):
        piece = frame(1, 4, number, encoder.encode(FIELDS)) + frame(0, 1, number, PREFIX + b"1234")
        client.feed(piece, 1000)
    client.connection.orphans = 2
    client.feed(frame(1, 4, 7, encoder.encode(FIELDS)) + frame(0, 1, 7, PREFIX + b"1234"), 1000)
    assert client.shortcuts == [5]
    assert client.transport.out.endswith(frame(3, 0, 7, struct.pack(">I", 7)))  # REFUSED_STREAM


class Recording:
    """A route that answers with the body, and tells its connection of requests that came whole."""

    body_limit = 1000

    def __init__(self):
        self.log, self.shortcuts = [], []

    def route(self, head):
        return self

    def run(self, connection, head, buffer, start, stop):
        body = buffer[start:stop]
        known = connection.current
        if body.startswith(PREFIX) and start == known.size and stop == len(buffer):
            plan = HttpPlan(HttpInfer(RequestHead("m", "", ()), "", (len(body) - len(PREFIX),)))
            start = buffer[: start + len(PREFIX)]
            connection.whole = WholeRequest(known, plan, start, self.again)
        self.answer(connection, head.path, body)

    def again(self, connection, whole, data):
        self.shortcuts.append(data)
        self.answer(connection, whole.known.head.path, PREFIX + whole.tensors(data)[0])

    def answer(self, connection, path, body):
        self.log.append((path, body))
        connection.reply(HttpReply(path.encode() + body))

    def gone(self, connection):
        self.log.append("gone")

    def too_large(self, size):
        return HttpReply(b"too large", 400)


def exchange(pieces, step=None):
    route = Recording()
    shared = HttpShared(route, MemoryBudget(100_000), HttpTimeouts())
    connection = Http1Connection(shared, Joins())
    transport = Transport()
    connection.connection_made(transport)
    for piece in pieces:
        for start in range(0, len(piece), step or len(piece)):
            connection.data_received(piece[start : start + (step or len(piece))])
    return route, (route.log, transport.out, connection.closing, transport.closed)


def post(path, body, *lines):
    head = [f"POST {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


@settings(max_examples=200, deadline=None)
@given(
    bodies=st.lists(
        st.tuples(
            st.sampled_from(
                ["usual", "usual", "other path", "other data", "shorter", "close", "garbage"]
            ),
            st.binary(min_size=4, max_size=4),
        ),
        max_size=10,
    )
)
def test_http_requests_mean_the_same_whole_and_byte_by_byte(bodies):
    pieces = [post("/a", PREFIX + b"1234")] * 2
    for kind, tail in bodies:
        body = {"other data": b"else" + tail, "shorter": PREFIX + tail[:-1]}.get(
            kind, PREFIX + tail
        )
        lines = ["Connection: close"] if kind == "close" else []
        piece = post("/b" if kind == "other path" else "/a", body, *lines)
        pieces.append(b"\0" + piece if kind == "garbage" else piece)
    whole, split = exchange(pieces), exchange(pieces, 1)
    assert whole[1] == split[1]
    assert whole[0].shortcuts[:1] == pieces[1:2]
    assert split[0].shortcuts == []


@pytest.mark.parametrize("count", [2, 5])
def test_two_requests_in_one_read_do_not_take_the_short_way(count):
    usual = post("/a", PREFIX + b"1234")
    route, (log, out, *_) = exchange([usual, usual * count])
    assert log[0] == ("/a", PREFIX + b"1234")
    assert out.count(b"HTTP/1.1 200") == len(log)
    assert route.shortcuts == []
