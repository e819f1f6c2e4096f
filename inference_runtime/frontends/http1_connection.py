"""One HTTP/1.1 connection: requests in, one at a time, answers out in order.

What requests mean is the business of the routes (see http_routes.py). Pipelined requests wait in the
connection until the one before them is answered; so one connection never holds two.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

from inference_runtime.frontends.http1_application import HttpShared, Known
from inference_runtime.frontends.http1_body import (
    Body,
    BodyTooLarge,
    ChunkedBody,
    DiscardedBody,
    SizedBody,
)
from inference_runtime.frontends.http1_head import HeadFault
from inference_runtime.frontends.http1_reply import CONTINUE, HttpReply, error_reply
from inference_runtime.frontends.http1_watch import HttpWatch
from inference_runtime.frontends.http_plan import WholeRequest
from inference_runtime.spec.messages import Bytes

_END: Final = b"\r\n\r\n"
_HEAD_LIMIT: Final = 65536
_PIPELINE_LIMIT: Final = 262144  # bytes that may wait behind a request under way
_WRITE_HIGH_WATER: Final = 1 << 20
_PROBE_AGAIN_S: Final = 0.05  # by then the first probe has come back from where nobody listens
_DISCARD_LIMIT: Final = 1 << 30  # a refused body is read to its end up to this size


class Joins(Protocol):
    """Who keeps account of open connections."""

    def joined(self, connection: "Http1Connection") -> bool: ...
    def left(self, connection: "Http1Connection") -> None: ...


class Http1Connection(asyncio.Protocol):
    """`request` and `plan` belong to the route under way."""

    protocol: Final = "HTTP"  # as traces call it
    __slots__ = (
        "_at",
        "_body",
        "_joins",
        "_refused",
        "_rest",
        "_shared",
        "_watch",
        "busy",
        "closing",
        "current",
        "draining",
        "ended",
        "heard",
        "paused",
        "plan",
        "request",
        "spoken",
        "transport",
        "whole",
    )

    def __init__(self, shared: HttpShared, joins: Joins) -> None:
        self._shared = shared
        self._joins = joins
        self._watch = HttpWatch(self, shared.timeouts)
        self.transport: Any = None
        # An incomplete head, or what came behind the request under way, from `_at` on: cutting it off at
        # every request would copy a long pipeline once for each.
        self._rest = b""
        self._at = 0
        self._body: Body | None = None  # of `current`, while it is incomplete
        self._refused: HttpReply | None = None  # what to say once the refused body is over
        self.current: Known | None = None
        self.busy = False  # a request is with its route
        self.paused = False  # the client does not read its answers
        self.draining = False
        self.ended = False  # the client has closed its side
        self.spoken = False  # some of the answer under way is out
        self.closing = False
        self.heard = True
        self.request: Any = None
        self.plan: Any = None
        self.whole: WholeRequest | None = None  # what this client asked for last, if it may again

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if not self._joins.joined(self):
            self.abort()
            return
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        # First of all: whatever goes wrong below, a listener that closes must not wait for this for ever.
        self._joins.left(self)
        if self._body is not None:
            self._body.release()
            self._body = None
        if self.busy and self.current is not None:
            self.current.route.gone(self)

    def eof_received(self) -> bool:
        """True where the client may still listen: one that only closed its side gets its answers.

        A client that is gone looks the same at first. What tells them apart is to write to it, so it is
        sent interim answers, which mean nothing to one that is there.
        """
        if self.closing or not self.busy or self.spoken or self.current is None:
            return False
        if self.current.head.old:
            return False  # HTTP/1.0 knows no interim answers
        self.ended = True
        if not self._rest:
            self.draining = True
        self.probe()
        asyncio.get_running_loop().call_later(_PROBE_AGAIN_S, self.probe)
        return True

    def probe(self) -> None:
        """Finds out whether a client that closed its side is still there, as long as it awaits an answer."""
        if self.ended and self.busy and not self.spoken and not self.closing:
            self.transport.write(CONTINUE)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._resume_soon()

    def watch(self, elapsed_s: float) -> None:
        self._watch.tick(elapsed_s)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self.busy or self.paused or self._rest or self._body is not None or self.closing:
            self._more(data)
            return
        whole = self.whole
        if whole is not None and len(data) == whole.size and data.startswith(whole.start):
            self.current = whole.known
            self.busy = True
            whole.run(self, whole, data)
        else:
            self._consume(data, 0)

    # -- reading

    @property
    def awaits_head(self) -> bool:
        return bool(self._rest) and not self.busy

    @property
    def awaits_body(self) -> bool:
        return self._body is not None

    def _more(self, data: bytes) -> None:
        if self.closing:
            return
        if self.busy or self.paused:
            self._keep(self._rest[self._at :] + data, 0)
            if len(self._rest) > _PIPELINE_LIMIT:
                self.transport.pause_reading()
        elif self._body is not None:
            self._feed(data, 0)
        else:
            data = self._rest[self._at :] + data
            self._rest = b""
            self._consume(data, 0)

    def _keep(self, data: bytes, position: int) -> None:
        self._rest = data
        self._at = position

    def _consume(self, data: bytes, position: int) -> None:
        end = len(data)
        heads = self._shared.heads
        while position < end and not self.closing:
            if self.paused:
                break
            mark = data.find(_END, position)
            if mark < 0:
                if end - position > _HEAD_LIMIT:
                    self._refuse(_too_long())
                break
            start = mark + 4
            raw = data[position:start]
            try:
                known = heads.get(raw) or self._known(raw)
            except HeadFault as fault:
                self._refuse(error_reply(fault.status, fault.text))
                return
            self.current = known
            stop = start + known.length
            if stop > end or not known.sized:
                self._begin_body(known, data, start)
                return
            position = stop
            self.busy = True
            known.run(self, known.head, data, start, stop)
            if self.busy:
                break
        if position < end and not self.closing:
            self._keep(data, position)

    def _known(self, raw: bytes) -> Known:
        if len(raw) > _HEAD_LIMIT:
            raise HeadFault(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head too large")
        return self._shared.known(raw[2:] if raw.startswith(b"\r\n") else raw)

    def _begin_body(self, known: Known, data: bytes, start: int) -> None:
        head, limit = known.head, known.route.body_limit
        if head.length > limit:
            self._refused = known.route.too_large(head.length)
            if head.expects_continue or head.length > _DISCARD_LIMIT:
                self._refuse(self._refused)
                return
            self._body = DiscardedBody(head.length)
        elif head.length < 0:
            self._body = ChunkedBody(limit, self._shared.budget)
        else:
            self._body = SizedBody(head.length, self._shared.budget)
        if head.expects_continue and start == len(data):
            self.transport.write(CONTINUE)
        self._feed(data, start)

    def _feed(self, data: bytes, position: int) -> None:
        body, current = self._body, self.current
        if body is None or current is None:
            return
        try:
            position = body.feed(data, position)
            if position < 0:
                return
        except HeadFault as fault:
            self._refuse(error_reply(fault.status, fault.text))
            return
        except BodyTooLarge as fault:
            self._refuse(current.route.too_large(fault.size))
            return
        content = body.content()
        self._body = None
        self.busy = True
        if self._refused is not None:
            refused, self._refused = self._refused, None
            self.reply(refused)
        else:
            current.run(self, current.head, content, 0, len(content))
        if position < len(data) and not self.closing:
            self._keep(data, position)
            if not self.busy:
                self._resume_soon()  # not now: a client could nest calls as deep as it pipelines

    def header(self, name: str) -> str:
        """Of the request under way; the name in lower case."""
        return self.current.head.headers.get(name, "") if self.current is not None else ""

    def sent_headers(self) -> Sequence[tuple[str, str]]:
        """Of the request under way, their names as the client wrote them."""
        return self.current.head.sent if self.current is not None else ()

    # -- answering

    @property
    def plain(self) -> bool:
        """The answer needs no Connection header."""
        current = self.current
        return current is not None and current.plain and not self.draining

    def reply(self, reply: HttpReply) -> None:
        """Answers the request under way; nothing happens when its client has left."""
        if self.closing:
            return
        body = (
            b"" if self.current is not None and self.current.head.method == "HEAD" else reply.body
        )
        self.send((reply.head(), self.connection_header(), b"\r\n", body))

    def connection_header(self) -> bytes:
        if self.plain:
            return b""
        if self.draining or self.current is None or not self.current.head.keep_alive:
            return b"Connection: close\r\n"
        return b"Connection: keep-alive\r\n"

    def send(self, parts: Sequence[Bytes]) -> None:
        """Writes a whole answer, head included, and turns to the next request."""
        self.write(b"".join(parts))
        self.sent()

    def write(self, data: Bytes) -> None:
        """Never raises: a client that is gone takes no other request with it."""
        if not self.closing:
            self.spoken = True
            self.transport.write(data)

    def write_parts(self, parts: Sequence[Bytes]) -> None:
        if not self.closing:
            self.spoken = True
            self.transport.writelines(parts)

    def send_whole(self, whole: bytes) -> None:
        """`send` for an answer made for a connection that is `plain`."""
        self.transport.write(whole)
        self.busy = False
        if self._rest:
            self._resume_soon()

    def sent(self) -> None:
        """The answer is written: the connection is free, or done."""
        self.busy = self.spoken = False
        if self.draining or (self.current is not None and not self.current.head.keep_alive):
            self.close()
        elif self._rest:
            self._resume_soon()

    def _resume_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self.closing or self.busy or self.paused or self._body is not None:
            return
        if not (self.transport.is_reading() or self.ended):
            self.transport.resume_reading()
        data, self._rest = self._rest, b""
        if data:
            self._consume(data, self._at)
        if self.ended and not self._rest:
            self.draining = True
        if self.ended and not self.busy:
            self.close()

    def _refuse(self, reply: HttpReply) -> None:
        """Answers what can not be a request, and ends the connection.

        What still comes is read and dropped for a while: closing at once would make the kernel take the
        answer back from a client that is still sending.
        """
        if self._body is not None:
            self._body.release()
            self._body = None
        if not self.closing:
            self.transport.write(reply.head() + b"Connection: close\r\n\r\n" + reply.body)
            self.closing = True
            self.transport.write_eof()

    # -- ends

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def timed_out(self) -> None:
        self._refuse(error_reply(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time"))

    def drain(self) -> None:
        self.draining = True
        if not self.busy and self._body is None and not self._rest:
            self.close()


def _too_long() -> HttpReply:
    return error_reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head too large")
