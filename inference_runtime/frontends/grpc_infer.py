"""ModelInfer: from a message to the core and back, without a task or a future."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from time import monotonic_ns
from typing import Any, Final

from inference_runtime.errors import (
    DeadlineExceeded,
    FailureReason,
    RuntimeFault,
    SingleAnswerOnly,
)
from inference_runtime.frontends import grpc_reply
from inference_runtime.frontends.grpc_messages import DEFLATE_INLINE, CallFault, framed
from inference_runtime.frontends.grpc_unary import UnaryMethod
from inference_runtime.frontends.h2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    header_mark,
    pack_u32,
)
from inference_runtime.frontends.h2_reader import WholeStream
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.peer import is_loopback
from inference_runtime.protocol import compression, error_codec, grpc_answer
from inference_runtime.protocol.error_codec import GRPC_DEADLINE_EXCEEDED, GRPC_INTERNAL
from inference_runtime.protocol.grpc_codec import HEAVY, InferPlan, Split
from inference_runtime.spec.messages import Answer, Bytes, InferRequest, InferResponse

_log = logging.getLogger(__name__)

_REPLIES: Final = 256
_LEARN_BELOW: Final = (
    1 << 20
)  # larger answers travel in several frames, which no frame made before can be
_OK: Final = grpc_reply.OK
_TRAILERS: Final = header_mark(len(_OK), HEADERS, END_HEADERS | END_STREAM)


class InferReply:
    """An answer's bytes with gaps for the stream's number and the tensors' data.

    first │ stream │ second │ stream │ third │ data 0 │ marks[1] │ data 1 │ … │ trailers │ stream │ OK
    """

    __slots__ = (
        "data_size",
        "first",
        "frame_size",
        "headers",
        "marks",
        "message_head",
        "second",
        "sizes",
        "third",
    )

    def __init__(self, headers: bytes, message_head: bytes, sizes: list[int]) -> None:
        self.headers = headers
        self.message_head = message_head
        self.sizes = sizes
        marks = [grpc_answer.raw_mark(size) for size in sizes]
        message = len(message_head) + sum(map(len, marks)) + sum(sizes)
        self.data_size = 5 + message
        self.first = header_mark(len(headers), HEADERS, END_HEADERS)
        self.second = headers + header_mark(self.data_size, DATA, 0)
        self.third = b"\x00" + pack_u32(message) + message_head + (marks[0] if marks else b"")
        self.marks = marks
        edges = len(self.first) + len(headers) + 5 + len(_TRAILERS) + len(_OK)
        self.frame_size = edges + 12 + self.data_size

    def parts(self, id_: str, data: Sequence[Bytes]) -> list[Bytes]:
        """The message, for when its frame can not be used as it is."""
        parts: list[Bytes] = (
            [self.message_head + grpc_answer.id_bytes(id_)] if id_ else [self.message_head]
        )
        for mark, tensor in zip(self.marks, data, strict=True):
            parts += (mark, tensor)
        return parts


class _Again:
    """Where in a whole request of a plan, its message at `start`, the tensors are and the marks between them."""

    __slots__ = ("marks", "plan", "sizes", "tensors")

    def __init__(self, plan: InferPlan, start: int) -> None:
        self.plan = plan
        position = start + plan.framed_size
        cuts = [slice(position, position + plan.size)]
        self.marks: list[tuple[bytes, int]] = []
        for mark, mark_size, size in plan.rest:
            self.marks.append((mark, cuts[-1].stop))
            position = cuts[-1].stop + mark_size
            cuts.append(slice(position, position + size))
        self.sizes = tuple(cut.stop - cut.start for cut in cuts)
        self.tensors: Callable[[bytes], Sequence[bytes]] = (
            itemgetter(*cuts) if len(cuts) > 1 else lambda buffer: [buffer[cut] for cut in cuts]
        )


class InferMethod(UnaryMethod):
    """`stream.plan` is the request's plan, `stream.request` the request while the core has it."""

    __slots__ = ()

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None:
        """What `message` and `decode` do with the usual request: one frame, and a plan that its client used
        before."""
        now_ns = monotonic_ns()
        plan = stream.connection.hint
        if (
            plan is None
            or stop - start != plan.framed_total
            or not last
            or stream.call is not None
            or not buffer.startswith(plan.framed, start)
        ):
            super().data(stream, buffer, start, stop, last)
            return
        position = start + plan.framed_size
        end = position + plan.size
        data: list[Bytes] = [buffer[position:end]]
        for mark, mark_size, size in plan.rest:
            if not buffer.startswith(mark, end):
                super().data(stream, buffer, start, stop, last)
                return
            position = end + mark_size
            end = position + size
            data.append(buffer[position:end])
        if stop == len(buffer):
            reader = stream.connection.reader
            whole = reader.came_whole(stream, buffer, start, plan.framed, self.whole)
            if whole is not None:
                whole.context = _Again(plan, start)
        self._submit(stream, (plan, "", data), now_ns)

    def whole(self, stream: H2Stream, whole: WholeStream, buffer: bytes) -> None:
        """The same for a whole request like the one before it."""
        now_ns = monotonic_ns()
        again: _Again = whole.context
        for mark, place in again.marks:
            if not buffer.startswith(mark, place):
                super().data(stream, buffer, whole.at, len(buffer), 1)
                return
        plan = again.plan
        core = self._context.core
        head = plan.head
        request = InferRequest(head, again.tensors(buffer), self.done, stream, now_ns)
        request.sizes = again.sizes
        stream.plan = plan
        stream.request = request
        call = stream.head
        if call.timeout_ns:
            request.deadline_ns = now_ns + call.timeout_ns
        unit_header = core.unit_header(head.model_name)
        if unit_header:
            request.traffic_unit = call.metadata.get(unit_header, "")
        core.infer(request)

    def message(self, stream: H2Stream, buffer: bytes, start: int, stop: int) -> None:
        now_ns = monotonic_ns()
        decoder = self._context.decoder
        connection = stream.connection
        if stop - start > HEAVY and decoder.is_heavy(buffer, start, stop):
            work = partial(decoder.decode, buffer, start, stop, None)
            future = asyncio.get_running_loop().run_in_executor(None, work)
            future.add_done_callback(partial(self._decoded, stream, now_ns))
            return
        try:
            split = decoder.decode(buffer, start, stop, connection.hint)
        except RuntimeFault as fault:
            self._refuse(stream, error_codec.grpc_status(fault), fault.text, fault.reason)
            return
        connection.hint = split[0]
        self._submit(stream, split, now_ns)

    def _decoded(self, stream: H2Stream, now_ns: int, future: "asyncio.Future[Split]") -> None:
        if future.cancelled() or stream.closed:
            return
        error = future.exception()
        if isinstance(error, RuntimeFault):
            self._refuse(stream, error_codec.grpc_status(error), error.text, error.reason)
        elif error is not None:
            text = f"the request can not be read: {error}"
            self._refuse(stream, GRPC_INTERNAL, text, FailureReason.OTHER)
        else:
            self._submit(stream, future.result(), now_ns)

    def unread(self, stream: H2Stream, fault: CallFault) -> None:
        self._refuse(stream, fault.status, fault.text, fault.reason)

    def _refuse(self, stream: H2Stream, status: int, text: str, reason: FailureReason) -> None:
        """Ends a call that the core does not get to see, and counts."""
        self._context.core.count_refused(reason)
        self.fail(stream, status, text)

    def _submit(self, stream: H2Stream, split: Split, now_ns: int) -> None:
        plan, id_, data = split
        core = self._context.core
        stream.plan = plan
        head = plan.head
        done, infer = self.done, core.infer
        if plan.regions is not None:
            try:
                local = is_loopback(stream.connection.transport)
                use = core.region_use(plan.regions, done, local=local)
            except RuntimeFault as fault:  # which is counted there
                self.fail(stream, error_codec.grpc_status(fault), fault.text)
                return
            done, infer = use.done, partial(use.start, infer=infer)
        request = InferRequest(head, data, done, stream, now_ns, id_)
        stream.request = request
        call = stream.head
        if call.timeout_ns:
            request.deadline_ns = now_ns + call.timeout_ns
        unit_header = core.unit_header(head.model_name)
        if unit_header:
            request.traffic_unit = call.metadata.get(unit_header, "")
        infer(request)

    def reset(self, stream: H2Stream) -> None:
        request = stream.request
        if request is None:
            super().reset(stream)
            return
        stream.connection.orphans += 1
        self._context.core.cancel(request)

    def done(self, request: InferRequest, answer: Answer) -> None:
        """The core's word on a request. Raises nothing: other requests of the batch come after it."""
        stream: H2Stream = request.context
        stream.request = None
        if stream.closed:
            stream.connection.orphans -= 1
            return
        try:
            if isinstance(answer, InferResponse):
                reply = stream.plan.replies.get((answer.head, request.arm))
                if reply is None or request.id or not _send(reply, stream, answer.data):
                    self._encode(stream, request, answer, reply)
            else:
                self._failed(stream, request, answer)
        except Exception:  # noqa: BLE001 - a bug in one answer must not cost its batch mates
            _log.exception("an answer could not be sent")
            stream.give_up()

    def _encode(
        self,
        stream: H2Stream,
        request: InferRequest,
        answer: InferResponse,
        reply: InferReply | None,
    ) -> None:
        head = request.head
        try:
            if reply is not None and [len(data) for data in answer.data] == reply.sizes:
                parts = reply.parts(request.id, answer.data)
            else:
                parts = grpc_answer.encode(head, request.id, answer, request.version)
        except RuntimeFault as fault:
            self._failed(stream, request, fault)
            return
        headers = grpc_reply.infer_headers(answer.head.model_version, request.arm)
        if self._context.packs_for(stream):
            self._compress(stream, headers, b"".join(parts))
            return
        grpc_reply.unary(stream, headers, parts)
        # Heads with parameters are made for one answer each; where answers are compressed for some clients, what
        # was written for others is of no use.
        lasting = stream.plan.kept and not (
            answer.head.parameters or self._context.compression_level
        )
        if reply is None and lasting and grpc_answer.is_plain(head, answer.head):
            self._learn(stream.plan, request, answer, headers)

    def _compress(self, stream: H2Stream, headers: bytes, message: bytes) -> None:
        work = partial(compression.try_deflate, message, "gzip", self._context.compression_level)
        if len(message) <= DEFLATE_INLINE:
            _send_compressed(stream, headers, message, work())
            return
        future = asyncio.get_running_loop().run_in_executor(None, work)

        def finish(done: "asyncio.Future[bytes | None]") -> None:
            if not done.cancelled():
                _send_compressed(stream, headers, message, done.result())

        future.add_done_callback(finish)

    def _learn(
        self, plan: Any, request: InferRequest, answer: InferResponse, headers: bytes
    ) -> None:
        if len(plan.replies) >= _REPLIES:
            plan.replies.clear()
        first = grpc_answer.head_bytes(answer.head, answer.head.outputs)
        sizes = [len(data) for data in answer.data]
        if sum(sizes) > _LEARN_BELOW:
            return
        plan.replies[(answer.head, request.arm)] = InferReply(headers, first, sizes)

    def _failed(self, stream: H2Stream, request: InferRequest, fault: RuntimeFault) -> None:
        if isinstance(fault, SingleAnswerOnly):
            fault = SingleAnswerOnly("ModelInfer RPC")
        status = error_codec.grpc_status(fault)
        if (
            isinstance(fault, DeadlineExceeded)
            and request.deadline_ns
            and monotonic_ns() >= request.deadline_ns
        ):
            status = GRPC_DEADLINE_EXCEEDED
        if request.version is not None:
            headers = grpc_reply.infer_headers(request.version.number_text, request.arm)
            grpc_reply.refuse(stream, status, fault.text, headers)
        else:
            grpc_reply.refuse(stream, status, self._context.text_of(fault, request))


def _send_compressed(
    stream: H2Stream, headers: bytes, message: bytes, packed: bytes | None
) -> None:
    if stream.closed:
        return
    if packed is None:
        grpc_reply.unary(stream, headers, [message])
        return
    output = stream.connection.output
    output.headers(stream, headers + grpc_reply.GZIP, last=False)
    output.data(stream, framed([packed], compressed=True))
    output.end(stream, grpc_reply.OK)


def _send(reply: InferReply, stream: H2Stream, data: Sequence[Bytes]) -> bool:
    """Writes the whole answer in one go; False when windows, sizes or a queue do not allow that."""
    connection = stream.connection
    output = connection.output
    size = reply.data_size
    if (
        not output.clear
        or size > output.window
        or size > stream.send_window
        or size > output.frame_size
        or connection.closing
    ):
        return False
    number = pack_u32(stream.id)
    count = len(data)
    if count == 1:
        frame = b"".join(
            (
                reply.first, number, reply.second, number, reply.third, data[0],
                _TRAILERS, number, _OK,
            )
        )  # fmt: skip
    elif count == 2:
        frame = b"".join(
            (
                reply.first, number, reply.second, number, reply.third, data[0],
                reply.marks[1], data[1], _TRAILERS, number, _OK,
            )
        )  # fmt: skip
    else:
        frame = _join(reply, number, data)
    if len(frame) != reply.frame_size:
        return False
    output.window -= size
    connection.transport.write(frame)
    if stream.ended and not connection.leaving:
        # What `finish` does for the usual stream, without the call.
        stream.closed = True
        connection.streams.pop(stream.id, None)
    else:
        connection.finish(stream)
    return True


def _join(reply: InferReply, number: bytes, data: Sequence[Bytes]) -> bytes:
    parts = [reply.first, number, reply.second, number, reply.third, *data[:1]]
    for mark, tensor in zip(reply.marks[1:], data[1:], strict=True):
        parts += (mark, tensor)
    parts += (_TRAILERS, number, _OK)
    return b"".join(parts)
