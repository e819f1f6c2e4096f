"""The connection's state machine, driven byte by byte without sockets."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from inference_runtime.frontends.http1_application import HttpShared
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.memory_budget import MemoryBudget


class Transport(asyncio.Transport):
    """Remembers what was written and what was asked of it."""

    def __init__(self):
        self.out = b""
        self.closed = self.ended = self.aborted = False
        self.reading = True
        self.unsent = 0

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data):
        self.out += data

    def writelines(self, parts):
        self.out += b"".join(parts)

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return self.unsent

    def is_reading(self):
        return self.reading

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True


class Echo:
    """Answers with method, path and body, at once or when told."""

    def __init__(self):
        self.body_limit = 1000
        self.later = False
        self.waiting = []
        self.left = []

    def route(self, head):
        return self

    def run(self, connection, head, buffer, start, stop):
        reply = HttpReply(f"{head.method} {head.path} ".encode() + buffer[start:stop])
        if self.later:
            self.waiting.append((connection, reply))
        else:
            connection.reply(reply)

    def gone(self, connection):
        self.left.append(connection)

    def too_large(self, size):
        return HttpReply(b"too large: %d" % size, 400)


class Joins:
    def __init__(self, room=True):
        self.room = room
        self.here = set()

    def joined(self, connection):
        self.here.add(connection)
        return self.room

    def left(self, connection):
        self.here.discard(connection)


class Wire:
    def __init__(self, timeouts=None, room=True, budget=100_000):
        self.app = Echo()
        self.budget = MemoryBudget(budget)
        self.joins = Joins(room)
        shared = HttpShared(self.app, self.budget, timeouts or HttpTimeouts())
        self.connection = Http1Connection(shared, self.joins)
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    def feed(self, data):
        self.connection.data_received(data)

    def bodies(self):
        """Of the answers so far, in order."""
        found = []
        rest = self.transport.out.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            found.append(rest[:size])
            rest = rest[size:]
        return found


def get(path="/a", *lines):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *lines, "", ""]).encode()


def post(body, *lines):
    return get("/p", f"Content-Length: {len(body)}", *lines).replace(b"GET", b"POST") + body


def post_chunked(body):
    start = get("/c", "Transfer-Encoding: chunked").replace(b"GET", b"POST")
    return start + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


async def settle():
    """Lets the loop run what was put off."""
    for _ in range(5):
        await asyncio.sleep(0)


PIPELINE = post(b"one") + get("/two") + post_chunked(b"three") + post(b"") + get("/five")
ANSWERS = [b"POST /p one", b"GET /two ", b"POST /c three", b"POST /p ", b"GET /five "]


async def test_requests_may_be_cut_at_every_byte():
    for cut in range(len(PIPELINE)):
        wire = Wire()
        wire.feed(PIPELINE[:cut])
        wire.feed(PIPELINE[cut:])
        await settle()
        assert wire.bodies() == ANSWERS, cut
        assert wire.budget.used_bytes == 0


async def test_requests_may_come_byte_by_byte():
    wire = Wire()
    for index in range(len(PIPELINE)):
        wire.feed(PIPELINE[index : index + 1])
    await settle()
    assert wire.bodies() == ANSWERS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, len(PIPELINE)), max_size=10))
async def test_answers_keep_their_order_however_late_they_come(cuts):
    wire = Wire()
    wire.app.later = True
    edges = [0, *sorted(cuts), len(PIPELINE)]
    for first, last in itertools.pairwise(edges):
        wire.feed(PIPELINE[first:last])
    done = 0
    while wire.app.waiting:
        assert len(wire.app.waiting) == 1, "one request of a connection at a time"
        connection, reply = wire.app.waiting.pop()
        connection.reply(reply)
        done += 1
        await settle()
    assert wire.bodies() == ANSWERS
    assert done == len(ANSWERS)


async def test_a_long_pipeline_of_chunked_requests_does_not_nest_calls():
    wire = Wire()
    wire.feed(post_chunked(b"x") * 3000)
    for _ in range(3100):
        await asyncio.sleep(0)
    assert len(wire.bodies()) == 3000


async def test_an_empty_line_in_front_is_forgiven():
    wire = Wire()
    wire.feed(b"\r\n" + get())
    assert wire.bodies() == [b"GET /a "]


async def test_a_client_that_asks_is_told_to_continue():
    wire = Wire()
    request = post(b"abc", "Expect: 100-continue")
    wire.feed(request[:-3])
    assert wire.transport.out == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.feed(b"abc")
    assert wire.bodies() == [b"POST /p abc"]


async def test_a_client_that_does_not_wait_needs_no_word():
    wire = Wire()
    wire.feed(post(b"abc", "Expect: 100-continue"))
    assert b"100 Continue" not in wire.transport.out


async def test_too_large_a_body_is_refused_before_it_is_sent():
    wire = Wire()
    wire.feed(post(b"x" * 1001, "Expect: 100-continue")[:-1001])
    assert wire.bodies() == [b"too large: 1001"]
    assert wire.transport.ended


async def test_too_large_a_body_is_read_to_its_end_and_the_connection_lives():
    wire = Wire()
    wire.feed(post(b"x" * 1001) + get("/next"))
    await settle()
    assert wire.bodies() == [b"too large: 1001", b"GET /next "]


async def test_too_large_a_chunk_ends_the_connection():
    wire = Wire()
    wire.feed(post_chunked(b"x" * 1001))
    assert wire.bodies() == [b"too large: 1001"]
    assert wire.transport.ended
    assert b"Connection: close" in wire.transport.out


async def test_after_a_refusal_nothing_more_is_served():
    wire = Wire()
    wire.feed(b"GARBAGE\r\n\r\n" + get())
    wire.feed(get())
    assert len(wire.bodies()) == 1
    assert wire.transport.out.startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize("pieces", [1, 100])
async def test_a_head_without_end_is_refused(pieces):
    wire = Wire()
    for _ in range(pieces):
        wire.feed(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * (70_000 // pieces) + b"\r\n")
    assert wire.transport.out.startswith(b"HTTP/1.1 431 ")


async def test_the_answer_to_head_has_no_body():
    wire = Wire()
    wire.feed(get().replace(b"GET", b"HEAD"))
    head, _, body = wire.transport.out.partition(b"\r\n\r\n")
    assert body == b""
    assert b"Content-Length: 8" in head


async def test_close_is_honoured():
    wire = Wire()
    wire.feed(get("/a", "Connection: close") + get("/b"))
    assert wire.bodies() == [b"GET /a "]
    assert wire.transport.closed


async def test_an_old_client_is_told_that_the_connection_stays():
    wire = Wire()
    wire.feed(get("/a", "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert b"Connection: keep-alive" in wire.transport.out
    assert not wire.transport.closed


async def test_a_client_that_pipelines_too_much_is_not_read_any_more():
    wire = Wire()
    wire.app.later = True
    wire.feed(get())
    for _ in range(100):
        wire.feed(get("/b") * 100)
    assert not wire.transport.reading
    wire.app.later = False
    connection, reply = wire.app.waiting.pop()
    connection.reply(reply)
    await settle()
    assert len(wire.bodies()) == 10_001
    assert wire.transport.reading


async def test_a_client_that_does_not_read_gets_no_more_work_done():
    wire = Wire()
    wire.connection.pause_writing()
    wire.feed(get())
    assert wire.bodies() == []
    wire.connection.resume_writing()
    await settle()
    assert wire.bodies() == [b"GET /a "]


async def test_a_client_that_leaves_is_told_to_its_route():
    wire = Wire()
    wire.app.later = True
    wire.feed(get())
    wire.connection.connection_lost(None)
    assert wire.app.left == [wire.connection]
    assert wire.joins.here == set()
    connection, reply = wire.app.waiting.pop()
    connection.reply(reply)
    assert wire.transport.out == b""


async def test_a_route_that_fails_when_its_client_leaves_does_not_keep_the_connection(monkeypatch):
    wire = Wire()
    wire.app.later = True
    monkeypatch.setattr(wire.app, "left", None)
    wire.feed(get())
    with pytest.raises(AttributeError):
        wire.connection.connection_lost(None)
    assert wire.joins.here == set()


async def test_an_incomplete_body_gives_its_memory_back_when_the_client_leaves():
    wire = Wire()
    wire.feed(post(b"x" * 500)[:-100])
    assert wire.budget.used_bytes == 400
    wire.connection.connection_lost(None)
    assert wire.budget.used_bytes == 0


async def test_too_many_unfinished_bodies_are_refused_with_503():
    wire = Wire(budget=100)
    wire.feed(post(b"x" * 500)[:-100])
    assert wire.transport.out.startswith(b"HTTP/1.1 503 ")
    assert wire.budget.used_bytes == 0


async def test_a_connection_too_many_is_closed():
    assert Wire(room=False).transport.aborted


def tick(wire, seconds):
    for _ in range(seconds):
        wire.connection.watch(1.0)


TIMES = HttpTimeouts(head=3, body=3, idle=5, unread=3, closing=2)


async def test_a_head_that_dribbles_times_out():
    wire = Wire(TIMES)
    for _ in range(5):
        wire.feed(b"G")
        tick(wire, 1)
    assert wire.transport.out.startswith(b"HTTP/1.1 408 ")


async def test_a_body_may_take_its_time_but_not_stand_still():
    wire = Wire(TIMES)
    wire.feed(post(b"x" * 500)[:-100])
    for _ in range(10):
        wire.feed(b"x")
        tick(wire, 1)
    assert wire.transport.out == b""
    tick(wire, 5)
    assert wire.transport.out.startswith(b"HTTP/1.1 408 ")


async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not():
    wire = Wire(TIMES)
    wire.app.later = True
    wire.feed(get())
    tick(wire, 20)
    assert not wire.transport.closed
    connection, reply = wire.app.waiting.pop()
    connection.reply(reply)
    tick(wire, 7)
    assert wire.transport.closed


async def test_a_client_that_takes_nothing_is_cut_off_and_a_slow_one_is_not():
    wire = Wire(TIMES)
    wire.connection.pause_writing()
    for unsent in range(100, 90, -1):
        wire.transport.unsent = unsent
        tick(wire, 1)
    assert not wire.transport.aborted
    tick(wire, 5)
    assert wire.transport.aborted


async def test_a_refused_client_that_stays_is_cut_off():
    wire = Wire(TIMES)
    wire.feed(b"GARBAGE\r\n\r\n")
    assert not wire.transport.aborted
    tick(wire, 4)
    assert wire.transport.aborted


async def test_draining_closes_idle_connections_at_once_and_busy_ones_after_their_answer():
    idle = Wire()
    idle.connection.drain()
    assert idle.transport.closed
    busy = Wire()
    busy.app.later = True
    busy.feed(get() + get())
    busy.connection.drain()
    assert not busy.transport.closed
    connection, reply = busy.app.waiting.pop()
    connection.reply(reply)
    await settle()
    assert busy.bodies() == [b"GET /a "]
    assert b"Connection: close" in busy.transport.out
    assert busy.transport.closed
