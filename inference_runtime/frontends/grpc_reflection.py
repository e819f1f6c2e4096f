"""ServerReflectionInfo: a stream of questions, each answered before the next is read."""

from collections.abc import Callable

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends import grpc_reply
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_messages import CallFault, MessageReader, framed, inflate
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.protocol import error_codec
from inference_runtime.protocol.error_codec import GRPC_INTERNAL

_QUESTION_LIMIT = 65536
_UNSENT_BYTES = 1 << 20


class _Dialogue:
    """One open stream."""

    __slots__ = ("complete", "failed", "reader", "started")

    def __init__(self, reader: MessageReader) -> None:
        self.reader = reader
        self.started = False
        self.complete = False
        self.failed = False


class ReflectionMethod:
    __slots__ = ("_answer", "_context")
    patient = True

    def __init__(self, context: GrpcContext, answer: Callable[[bytes], bytes]) -> None:
        self._context = context
        self._answer = answer

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        dialogue: _Dialogue | None = stream.call
        if dialogue is None:
            reader = MessageReader(_QUESTION_LIMIT, self._context.budget)
            dialogue = stream.call = _Dialogue(reader)
        if dialogue.failed:
            return
        try:
            for message, compressed in dialogue.reader.feed(buffer[start:stop]):
                if compressed:
                    message = inflate(message, stream.head.encoding, _QUESTION_LIMIT)
                self._reply(stream, dialogue, self._answer(message))
            if last and dialogue.reader.incomplete:
                raise CallFault(GRPC_INTERNAL, "the stream ended inside a message")
        except CallFault as fault:
            self._fail(stream, dialogue, fault.status, fault.text)
            return
        except RuntimeFault as fault:
            self._fail(stream, dialogue, error_codec.grpc_status(fault), fault.text)
            return
        dialogue.complete = bool(last)
        self.drained(stream)

    def reset(self, stream: H2Stream) -> None:
        dialogue: _Dialogue | None = stream.call
        if dialogue is not None:
            dialogue.failed = True
            dialogue.reader.release()

    def drained(self, stream: H2Stream) -> None:
        dialogue: _Dialogue | None = stream.call
        if dialogue is None or dialogue.failed or stream.closed:
            return
        output = stream.connection.output
        if dialogue.complete:
            self._start(stream, dialogue)
            output.end(stream, grpc_reply.OK)
        elif output.queued_bytes(stream) < _UNSENT_BYTES:
            stream.connection.replenish(stream)

    def _reply(self, stream: H2Stream, dialogue: _Dialogue, answer: bytes) -> None:
        self._start(stream, dialogue)
        stream.connection.output.data(stream, framed([answer]))

    def _start(self, stream: H2Stream, dialogue: _Dialogue) -> None:
        if not dialogue.started:
            dialogue.started = True
            stream.connection.output.headers(stream, grpc_reply.HEADERS, last=False)

    def _fail(self, stream: H2Stream, dialogue: _Dialogue, status: int, text: str) -> None:
        self.reset(stream)
        if stream.closed:
            return
        if dialogue.started:
            stream.connection.output.forget(stream)
            block = grpc_reply.trailers(status, text)
            stream.connection.output.headers(stream, block, last=True)
        else:
            grpc_reply.refuse(stream, status, text)
