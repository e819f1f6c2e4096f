"""ModelStreamInfer: many requests on one stream.

Models that answer once answer in the order the requests came; what decoupled models give is written as it comes.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from time import monotonic_ns
from typing import Final

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends import grpc_reply
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_messages import (
    INFLATE_INLINE,
    CallFault,
    MessageReader,
    framed,
    inflate,
)
from inference_runtime.frontends.grpc_stream_call import Slot, StreamCall
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.peer import is_loopback
from inference_runtime.protocol import error_codec, grpc_answer
from inference_runtime.protocol.error_codec import GRPC_INTERNAL, GRPC_RESOURCE_EXHAUSTED
from inference_runtime.protocol.grpc_codec import Split
from inference_runtime.spec.messages import (
    Answer,
    Bytes,
    Done,
    InferRequest,
    InferResponse,
)

_log = logging.getLogger(__name__)

# The client is slowed down by flow control while more than this waits on its stream.
_PENDING: Final = 1024
_UNSENT_BYTES: Final = 4 << 20
# A decoupled model can not be slowed down: a client that leaves this much unread loses its stream.
_UNREAD_LIMIT: Final = 64 << 20
STRICT: Final = "triton_grpc_error"


class StreamInferMethod:
    __slots__ = ("_context",)
    patient = True

    def __init__(self, context: GrpcContext) -> None:
        self._context = context

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        call: StreamCall | None = stream.call
        if call is None:
            call = self._open(stream)
        if call.failed:
            return
        try:
            for message, compressed in call.reader.feed(buffer[start:stop]):
                self._message(stream, call, message, compressed)
                if stream.closed:
                    return
            if last and call.reader.incomplete:
                raise CallFault(GRPC_INTERNAL, "the stream ended inside a message")
        except CallFault as fault:
            self._context.core.count_refused(fault.reason)
            self._end(stream, call, fault.status, fault.text)
            return
        call.complete = bool(last)
        self._flush(stream, call)

    def reset(self, stream: H2Stream) -> None:
        call: StreamCall | None = stream.call
        if call is not None:
            call.failed = True
            self._cancel_all(stream, call)

    def done(self, request: InferRequest, answer: Answer) -> None:
        slot: Slot = request.context
        stream = slot.stream
        call: StreamCall = stream.call
        call.requests.discard(request)
        if call.failed:
            stream.connection.orphans -= 1
            return
        try:
            if self._is_free(slot, call, request):
                call.free -= 1
                flag_only = isinstance(answer, InferResponse) and answer.head.empty
                if not flag_only or request.head.empty_final:
                    self._write(slot, request, answer, final=True)
            else:
                slot.parts = self._parts(slot, request, answer, final=True)
            self._flush(stream, call)
        except Exception:  # noqa: BLE001 - a bug in one answer must not cost its batch mates
            _log.exception("an answer could not be sent")
            stream.give_up()

    def partial(self, request: InferRequest, answer: Answer) -> None:
        slot: Slot = request.context
        call: StreamCall = slot.stream.call
        if call.failed:
            return
        try:
            self._write(slot, request, answer, final=False)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("an answer could not be sent")
            slot.stream.give_up()

    def _is_free(self, slot: Slot, call: StreamCall, request: InferRequest) -> bool:
        """Known at once, or, where the core is in another process, at the latest with the answer."""
        version = request.version
        if not slot.free and version is not None and version.config.decoupled:
            call.slots.remove(slot)
            slot.free = True
            call.free += 1
        return slot.free

    def drained(self, stream: H2Stream) -> None:
        call: StreamCall | None = stream.call
        if call is not None:
            self._flush(stream, call)

    def _open(self, stream: H2Stream) -> StreamCall:
        reader = MessageReader(self._context.max_message_bytes, self._context.budget)
        strict = stream.head.metadata.get(STRICT, "").lower() == "true"
        stream.call = StreamCall(reader, strict)
        call: StreamCall = stream.call
        return call

    def _message(
        self, stream: H2Stream, call: StreamCall, message: bytes, compressed: bool
    ) -> None:
        if call.reading:
            call.held.append((message, compressed))
            return
        now_ns = monotonic_ns()
        slot = Slot(stream)
        call.slots.append(slot)
        if compressed and len(message) <= INFLATE_INLINE:
            message = self._inflate(stream, message)
            compressed = False
        decoder, size = self._context.decoder, len(message)
        if compressed or decoder.is_heavy(message, 0, size):
            call.reading = True
            work = partial(self._read, stream, message, compressed)
            future = asyncio.get_running_loop().run_in_executor(None, work)
            future.add_done_callback(partial(self._was_read, slot, now_ns))
            return
        try:
            split = decoder.decode(message, 0, size, stream.connection.hint)
        except RuntimeFault as fault:
            self._unread(slot, fault, message)
        else:
            self._submit(slot, split, now_ns)

    def _inflate(self, stream: H2Stream, message: bytes) -> bytes:
        return inflate(message, stream.head.encoding, self._context.max_message_bytes)

    def _read(
        self, stream: H2Stream, message: bytes, compressed: bool
    ) -> tuple[bytes, Split | RuntimeFault]:
        """The message, decompressed, and what it came to."""
        if compressed:
            message = self._inflate(stream, message)
        try:
            return message, self._context.decoder.decode(message, 0, len(message), None)
        except RuntimeFault as fault:
            return message, fault

    def _was_read(
        self,
        slot: Slot,
        now_ns: int,
        future: "asyncio.Future[tuple[bytes, Split | RuntimeFault]]",
    ) -> None:
        """A message that was read in a thread; those behind it have waited, so that the order stays."""
        stream = slot.stream
        call: StreamCall = stream.call
        if future.cancelled() or call.failed or stream.closed:
            return
        call.reading = False
        try:
            message, read = future.result()
            if isinstance(read, RuntimeFault):
                self._unread(slot, read, message)
            else:
                self._submit(slot, read, now_ns)
            while call.held and not (call.reading or stream.closed):
                self._message(stream, call, *call.held.popleft())
        except CallFault as fault:
            self._context.core.count_refused(fault.reason)
            self._end(stream, call, fault.status, fault.text)
            return
        except Exception:  # noqa: BLE001 - nobody else waits for this future
            _log.exception("a message could not be read")
            stream.give_up()
            return
        self._flush(stream, call)

    def _submit(self, slot: Slot, split: Split, now_ns: int) -> None:
        plan, id_, data = split
        stream = slot.stream
        call: StreamCall = stream.call
        connection = stream.connection
        done, infer = self.done, self._context.core.infer
        answered: Done = self.partial
        if plan.regions is not None:
            local = is_loopback(connection.transport)
            try:
                use = self._context.core.region_use(plan.regions, done, local=local, in_turn=True)
            except RuntimeFault as fault:  # which is counted there
                slot.parts = [grpc_answer.stream_fault(fault.text, id_, None)]
                return
            done, answered = use.done, use.partial(answered)
            infer = partial(use.start, infer=infer)
        connection.hint = plan
        request = InferRequest(plan.head, data, done, slot, now_ns, id_)
        request.partial = answered
        if stream.head.timeout_ns:
            request.deadline_ns = now_ns + stream.head.timeout_ns
        unit_header = self._context.core.unit_header(plan.head.model_name)
        if unit_header:
            request.traffic_unit = stream.head.metadata.get(unit_header, "")
        call.requests.add(request)
        infer(request)
        slot.accepted = True
        if request in call.requests:
            self._is_free(slot, call, request)

    def _unread(self, slot: Slot, fault: RuntimeFault, message: bytes) -> None:
        """The id stands in the message, which could be read well enough to find it, or not at all."""
        self._context.core.count_refused(fault.reason)
        slot.parts = [grpc_answer.stream_fault(fault.text, grpc_answer.id_of(message), None)]

    def _parts(
        self, slot: Slot, request: InferRequest, answer: Answer, *, final: bool
    ) -> Sequence[Bytes] | None:
        """What goes on the wire; None when the answer has ended the whole stream."""
        fault = answer
        if isinstance(answer, InferResponse):
            try:
                return grpc_answer.stream_answer(
                    grpc_answer.encode(
                        request.head, request.id, answer, request.version, final=final
                    )
                )
            except RuntimeFault as refused:
                fault = refused
        assert isinstance(fault, RuntimeFault)
        stream = slot.stream
        text = self._context.text_of(fault, request)
        if stream.call.strict:
            self._end(stream, stream.call, error_codec.grpc_status(fault), text)
            return None
        # A request that no scheduler has taken has no final response to speak of.
        taken = fault is not answer or (slot.accepted and not fault.refused)
        accepted = request.head if taken else None
        return [grpc_answer.stream_fault(text, request.id, accepted, final=final)]

    def _write(self, slot: Slot, request: InferRequest, answer: Answer, *, final: bool) -> None:
        """Sends an answer that waits for no other."""
        parts = self._parts(slot, request, answer, final=final)
        stream = slot.stream
        if parts is None or stream.closed:
            return
        call: StreamCall = stream.call
        # What waited before: a response may be as large as it likes.
        unread = stream.connection.output.queued_bytes(stream) + call.packing.size
        self._send(stream, call, parts)
        if unread > _UNREAD_LIMIT:
            self._end(
                stream,
                call,
                GRPC_RESOURCE_EXHAUSTED,
                "the responses of the stream are not read as fast as they are made",
            )

    def _send(self, stream: H2Stream, call: StreamCall, parts: Sequence[Bytes]) -> None:
        self._start(stream, call)
        if self._context.packs_for(stream):
            level = self._context.compression_level
            call.packing.add(b"".join(parts), level, partial(self._packed, stream, call))
            self._send_packed(stream, call)
        else:
            stream.connection.output.data(stream, framed(parts))

    def _packed(self, stream: H2Stream, call: StreamCall) -> None:
        """A message is compressed that took a thread for it."""
        if not (stream.closed or call.failed):
            self._send_packed(stream, call)
            self._flush(stream, call)

    def _send_packed(self, stream: H2Stream, call: StreamCall) -> None:
        for message, compressed in call.packing.take():
            stream.connection.output.data(stream, framed([message], compressed=compressed))

    def _flush(self, stream: H2Stream, call: StreamCall) -> None:
        """Sends what is next in order; ends the stream when the client has and all is answered."""
        if stream.closed or call.failed:
            return
        output = stream.connection.output
        slots = call.slots
        while slots and slots[0].parts is not None:
            self._send(stream, call, slots.popleft().parts or ())
        packing = call.packing
        if call.complete and not (slots or call.held or call.free or packing):
            self._start(stream, call)
            output.end(stream, grpc_reply.OK)
        elif call.reading:
            return  # what is held behind the message being read is bounded by the stream's window
        elif (
            len(slots) + call.free + len(packing) < _PENDING
            and output.queued_bytes(stream) + packing.size < _UNSENT_BYTES
        ):
            stream.connection.replenish(stream)

    def _start(self, stream: H2Stream, call: StreamCall) -> None:
        if not call.started:
            call.started = True
            packs = self._context.packs_for(stream)
            headers = grpc_reply.HEADERS + grpc_reply.GZIP if packs else grpc_reply.HEADERS
            stream.connection.output.headers(stream, headers, last=False)

    def _end(self, stream: H2Stream, call: StreamCall, status: int, text: str) -> None:
        """The whole stream fails: nothing more is written but the reason."""
        call.failed = True
        if not stream.closed:
            if call.started:
                stream.connection.output.forget(stream)
                block = grpc_reply.trailers(status, text)
                stream.connection.output.headers(stream, block, last=True)
            else:
                grpc_reply.refuse(stream, status, text)
        self._cancel_all(stream, call)

    def _cancel_all(self, stream: H2Stream, call: StreamCall) -> None:
        call.reader.release()
        call.held.clear()
        call.slots.clear()
        call.packing.clear()
        for request in list(call.requests):
            stream.connection.orphans += 1
            self._context.core.cancel(request)
