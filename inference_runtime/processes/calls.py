"""What is no inference: a front-end process hands it over as it came, the executor's own handlers answer."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from inference_runtime.errors import InvalidArgument, RuntimeFault, Unavailable
from inference_runtime.frontends import grpc_reply
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_methods import admin_methods
from inference_runtime.frontends.grpc_unary import UnaryMethod
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.frontends.http_server import Row, handler_rows
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.processes import frames, messages
from inference_runtime.processes.frames import HEAD_SIZE, pack_head
from inference_runtime.processes.link import Link
from inference_runtime.processes.ring import Bytes
from inference_runtime.protocol import error_codec

Replied = tuple[Any, bytes]  # JSON, and bytes behind it
HTTP, GRPC = "http", "grpc"
# Of one front end, under way: a load may take minutes, and its clients may be impatient.
LIMIT: Final = 1024
_BUSY: Final = "as many calls are under way as there may be; try again"


class Calls:
    """The front end's side."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Replied]] = {}

    async def call(self, which: Any, body: bytes) -> Replied:
        """Raises the fault that the executor answers."""
        if len(self._waiting) >= LIMIT:
            raise Unavailable(_BUSY)
        ticket = next(self._tickets) % (1 << 32)
        future: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        parts = frames.with_text(which, body)
        size = HEAD_SIZE + sum(map(len, parts))
        self._link.send(pack_head(size, frames.CALL, 0, 0, ticket, 0), parts, size)
        return await future

    def replied(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        future = self._waiting.pop(ticket)
        text, start = frames.read_text(message, start, stop)
        if future.cancelled():
            return
        if flags & frames.FAILED:
            future.set_exception(messages.read_fault(text))
        else:
            future.set_result((text, bytes(message[start:stop])))


def http_rows(calls: Calls, names: Sequence[Sequence[str]]) -> list[Row]:
    """The routes of `names`, each a method and a path, answered by the executor."""

    def handler(method: str, path: str) -> Handler:
        async def forwarded(call: HttpCall) -> HttpReply:
            peer = _address(call.transport)
            which = [HTTP, method, path, dict(call.arguments), call.head.query, peer]
            try:
                (status, content_type, headers), body = await calls.call(which, call.body)
            except TypeError:
                raise InvalidArgument("the path holds text that is no Unicode") from None
            pairs = [(name.encode(), value.encode()) for name, value in headers]
            return HttpReply(body, status, content_type.encode(), pairs)

        return forwarded

    return [(method, path, handler(method, path)) for method, path in names]


class ForwardedMethod(UnaryMethod):
    """A gRPC method answered by the executor; its messages are not looked at here."""

    __slots__ = ("_calls", "_path", "_tasks")

    def __init__(self, context: GrpcContext, calls: Calls, path: str) -> None:
        super().__init__(context)
        self._calls = calls
        self._path = path
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps only weak references

    def message(self, stream: H2Stream, buffer: bytes, start: int, stop: int) -> None:
        task = asyncio.ensure_future(self._forward(stream, buffer[start:stop]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, stream: H2Stream, message: bytes) -> None:
        which = [GRPC, self._path, _address(stream.connection.transport)]
        try:
            _, answer = await self._calls.call(which, message)
        except RuntimeFault as fault:
            self.fail(stream, error_codec.grpc_status(fault), fault.text)
        else:
            if not stream.closed:
                grpc_reply.unary(stream, grpc_reply.HEADERS, [answer])


class Handlers:
    """The executor's side. `rows` and `methods`: what front ends are to hand over."""

    def __init__(self, core: CorePort) -> None:
        self._http = {(method, path): handler for method, path, handler in handler_rows(core)}
        context = GrpcContext(core=core, budget=MemoryBudget(0))
        self._grpc = {path.decode(): way for path, way in admin_methods(context, core).items()}
        self.rows = [list(row) for row in self._http]
        self.methods = list(self._grpc)

    def call(self, which: Any, body: bytes) -> "Replied | Awaitable[Replied]":
        """Raises RuntimeFault."""
        if which[0] == HTTP:
            _, method, path, arguments, query, peer = which
            head = RequestHead1(method, path, query, {}, len(body), True, False, False)
            call = HttpCall(head, arguments, body, _Peer(peer))
            return _finished(self._http[method, path](call), _http_replied)
        _, path, peer = which
        way = self._grpc[path]
        try:
            request = way.request.FromString(body)
        except DecodeError:
            name = way.request.DESCRIPTOR.name
            raise InvalidArgument(f"failed to parse the {name} message") from None
        return _finished(way.handle(_Peer(peer), request), _grpc_replied)


def _finished(answer: Any, replied: Callable[[Any], Replied]) -> "Replied | Awaitable[Replied]":
    if not isinstance(answer, Awaitable):
        return replied(answer)

    async def later() -> Replied:
        return replied(await answer)

    return later()


def _http_replied(reply: HttpReply) -> Replied:
    headers = [[name.decode(), value.decode()] for name, value in reply.headers]
    return [reply.status, reply.content_type.decode(), headers], reply.body


def _grpc_replied(message: Any) -> Replied:
    return None, message.SerializeToString()


def _address(transport: Any) -> str:
    """Of the client; "" for one that came by a socket file."""
    name = transport.get_extra_info("peername") if transport is not None else None
    return str(name[0]) if isinstance(name, tuple) else ""


class _Peer:
    """What handlers ask of the transport of a client, which is in another process."""

    def __init__(self, address: str) -> None:
        self._name = (address, 0) if address else ""

    def get_extra_info(self, name: str) -> Any:
        return self._name if name == "peername" else None
