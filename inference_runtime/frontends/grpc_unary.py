"""Calls with one message each way: reading the message, and the methods that are not inference."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends import grpc_reply
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_messages import (
    INFLATE_INLINE,
    CallFault,
    MessageReader,
    inflate,
)
from inference_runtime.frontends.h2_frames import unpack_u32
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.protocol import error_codec
from inference_runtime.protocol.error_codec import (
    GRPC_INTERNAL,
    GRPC_INVALID_ARGUMENT,
    GRPC_UNIMPLEMENTED,
)

Handler = Callable[[Any], Message | Awaitable[Message]]

_log = logging.getLogger(__name__)
_tasks: Final[set[asyncio.Task[None]]] = set()  # the loop itself keeps only weak references


class UnaryMethod:
    """Reads the one message of a call; subclasses say what to do with it."""

    __slots__ = ("_context",)
    patient = False

    def __init__(self, context: GrpcContext) -> None:
        self._context = context

    def message(self, stream: H2Stream, buffer: bytes, start: int, stop: int) -> None:
        """`buffer[start:stop]` is the message, decompressed; the client has sent all it will."""
        raise NotImplementedError

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        if (
            last
            and stream.call is None
            and stop - start >= 5
            and buffer[start] == 0
            and unpack_u32(buffer, start + 1)[0] == stop - start - 5
        ):
            self.message(stream, buffer, start + 5, stop)
            return
        try:
            self._collect(stream, buffer[start:stop], last)
        except CallFault as fault:
            self.unread(stream, fault)

    def reset(self, stream: H2Stream) -> None:
        call = stream.call
        if isinstance(call, _Collected):
            call.reader.release()

    def drained(self, stream: H2Stream) -> None:
        """One message goes out; nothing waits for it to be gone."""

    def unread(self, stream: H2Stream, fault: CallFault) -> None:
        """There is no message that could be read."""
        self.fail(stream, fault.status, fault.text)

    def fail(self, stream: H2Stream, status: int, text: str) -> None:
        if not stream.closed:
            self.reset(stream)
            grpc_reply.refuse(stream, status, text)

    def _collect(self, stream: H2Stream, piece: bytes, last: int) -> None:
        call = stream.call
        if call is None:
            reader = MessageReader(self._context.max_message_bytes, self._context.budget)
            call = stream.call = _Collected(reader)
        for message, compressed in call.reader.feed(piece):
            call.message, call.compressed = message, compressed
        if call.reader.count > 1 or (last and (not call.reader.count or call.reader.incomplete)):
            raise CallFault(GRPC_UNIMPLEMENTED, "a unary call takes exactly one message")
        if not last:
            stream.connection.replenish(stream)
            return
        if call.compressed:
            self._inflate(stream, call.message)
        else:
            self.message(stream, call.message, 0, len(call.message))

    def _inflate(self, stream: H2Stream, message: bytes) -> None:
        work = partial(inflate, message, stream.head.encoding, self._context.max_message_bytes)
        if len(message) <= INFLATE_INLINE:
            plain = work()
            self.message(stream, plain, 0, len(plain))
            return
        future = asyncio.get_running_loop().run_in_executor(None, work)
        future.add_done_callback(partial(self._inflated, stream))

    def _inflated(self, stream: H2Stream, future: "asyncio.Future[bytes]") -> None:
        if future.cancelled() or stream.closed:
            return
        error = future.exception()
        if isinstance(error, CallFault):
            self.unread(stream, error)
        elif error is not None:
            self.fail(stream, GRPC_INTERNAL, f"decompression failed: {error}")
        else:
            plain = future.result()
            self.message(stream, plain, 0, len(plain))


class _Collected:
    """The state of a call whose message did not come in one frame."""

    __slots__ = ("compressed", "message", "reader")

    def __init__(self, reader: MessageReader) -> None:
        self.reader = reader
        self.message = b""
        self.compressed = False


class AdminMethod(UnaryMethod):
    """A call that a handler answers with a message, at once or later."""

    __slots__ = ("_handler", "request")

    def __init__(self, context: GrpcContext, request: type[Message], handler: Handler) -> None:
        super().__init__(context)
        self.request = request
        self._handler = handler

    def message(self, stream: H2Stream, buffer: bytes, start: int, stop: int) -> None:
        try:
            answer = self.handle(
                stream.connection.transport, self.request.FromString(buffer[start:stop])
            )
        except DecodeError:
            name = self.request.DESCRIPTOR.name
            self.fail(stream, GRPC_INVALID_ARGUMENT, f"failed to parse the {name} message")
        except Exception as error:  # noqa: BLE001 - the connection has other calls, too
            self._refuse(stream, error)
        else:
            if isinstance(answer, Message):
                self._answer(stream, answer)
            else:
                task = asyncio.ensure_future(self._later(stream, answer))
                _tasks.add(task)
                task.add_done_callback(_tasks.discard)

    def handle(self, transport: Any, request: Any) -> Message | Awaitable[Message]:
        return self._handler(request)

    async def _later(self, stream: H2Stream, pending: Awaitable[Message]) -> None:
        # A load goes on when its client has left: the next one wants to find it done.
        try:
            answer = await pending
        except Exception as error:  # noqa: BLE001 - whatever it is, the client waits for an answer
            self._refuse(stream, error)
        else:
            self._answer(stream, answer)

    def _refuse(self, stream: H2Stream, error: Exception) -> None:
        if isinstance(error, RuntimeFault):
            self.fail(stream, error_codec.grpc_status(error), error.text)
            return
        _log.error("a call could not be answered", exc_info=error)
        self.fail(stream, GRPC_INTERNAL, f"{type(error).__name__}: {error}")

    def _answer(self, stream: H2Stream, answer: Message) -> None:
        if not stream.closed:
            grpc_reply.unary(stream, grpc_reply.HEADERS, [answer.SerializeToString()])


class RefusedMethod:
    """Answers calls whose headers say already that they can not be served."""

    __slots__ = ()
    patient = False

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        head = stream.head
        if stream.closed:
            return
        if head.http_status != 200:
            grpc_reply.refuse_http(stream, head.http_status)
        else:
            grpc_reply.refuse(stream, head.fault.status, head.fault.text)

    def reset(self, stream: H2Stream) -> None:
        """Nothing is kept."""

    def drained(self, stream: H2Stream) -> None:
        """Nothing waits."""
