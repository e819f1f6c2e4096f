"""Answers to infer over HTTP: prepared where only the tensors differ, encoded where more does."""

import asyncio
import logging
from functools import partial
from typing import Any, Final

from inference_runtime.errors import RuntimeFault, SingleAnswerOnly
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_reply import JSON, STATUS_LINES, Headers, fault_reply
from inference_runtime.protocol import compression, http_answer
from inference_runtime.protocol.http_answer import HttpAnswer
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse

_log = logging.getLogger(__name__)

_REPLIES: Final = 256
_BINARY: Final = b"application/octet-stream"
# From here on the tensors are written as they lie instead of being joined to the head.
_JOIN_BELOW: Final = 262144
_DEFLATE_INLINE: Final = 65536
# Tensors of more bytes are written as text in a thread.
_TEXT_INLINE: Final = 65536


class PreparedReply:
    """Everything in front of the tensors: with headers that keep the connection open, and in pieces."""

    __slots__ = ("document", "headers", "size", "whole")

    def __init__(self, headers: bytes, document: bytes, binary_size: int) -> None:
        self.headers = headers
        self.document = document
        self.whole = headers + b"\r\n" + document
        self.size = len(self.whole) + binary_size


class InferReplies:
    """`done` is what the core calls. `encoding` is the content encoding the client asked for, "" for none."""

    __slots__ = ("_encoding",)

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def done(self, request: InferRequest, answer: Answer) -> None:
        """Raises nothing: other requests of the batch come after this one."""
        connection: Http1Connection = request.context
        connection.request = None
        if connection.closing:
            return
        try:
            if isinstance(answer, InferResponse):
                reply = connection.plan.replies.get((answer.head, request.arm))
                if reply is None or request.id or self._encoding:
                    self._encode(connection, request, answer)
                    return
                known = connection.current
                if (
                    reply.size < _JOIN_BELOW
                    and known is not None
                    and known.plain
                    and not connection.draining
                ):
                    whole = b"".join((reply.whole, *answer.data))
                    if len(whole) == reply.size:
                        connection.send_whole(whole)
                        return
                self._send(connection, request, answer, reply)
            else:
                self._failed(connection, request, answer)
        except Exception:  # noqa: BLE001 - a bug in one answer must not cost its batch mates
            _log.exception("an answer could not be sent")
            connection.abort()

    def _send(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        reply: PreparedReply,
    ) -> None:
        if len(reply.whole) + sum(map(len, answer.data)) != reply.size:
            self._encode(connection, request, answer)
            return
        start = reply.headers + connection.connection_header() + b"\r\n" + reply.document
        connection.write_parts((start, *answer.data))
        connection.sent()

    def _encode(
        self, connection: Http1Connection, request: InferRequest, answer: InferResponse
    ) -> None:
        work = partial(http_answer.encode, request.head, request.id, answer, request.version)
        size = sum(map(len, answer.data))
        if size > _TEXT_INLINE and not http_answer.is_plain(request.head, answer.head):
            future = asyncio.get_running_loop().run_in_executor(None, work)
            future.add_done_callback(partial(self._encoded, connection, request, answer))
            return
        try:
            encoded = work()
        except RuntimeFault as fault:
            self._failed(connection, request, fault)
            return
        self._write(connection, request, answer, encoded)

    def _encoded(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        future: "asyncio.Future[HttpAnswer]",
    ) -> None:
        if future.cancelled() or connection.closing:
            return
        try:
            self._write(connection, request, answer, future.result())
        except RuntimeFault as fault:
            self._failed(connection, request, fault)
        except Exception:  # noqa: BLE001 - nobody else waits for this future
            _log.exception("an answer could not be encoded")
            connection.abort()

    def _write(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        encoded: HttpAnswer,
    ) -> None:
        if self._encoding:
            self._compress(connection, request, answer, encoded)
            return
        self._send_encoded(connection, request, answer, encoded)

    def _send_encoded(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        encoded: HttpAnswer,
    ) -> None:
        size = len(encoded.json) + encoded.binary_size
        headers = _headers(request, encoded, size)
        plan = connection.plan
        # Heads with parameters are made for one answer each.
        lasting = plan.kept and not answer.head.parameters and not request.id
        if lasting and http_answer.is_plain(request.head, answer.head):
            if len(plan.replies) >= _REPLIES:
                plan.replies.clear()
            plan.replies[(answer.head, request.arm)] = PreparedReply(
                headers, encoded.json, encoded.binary_size
            )
        start = headers + connection.connection_header() + b"\r\n" + encoded.json
        if encoded.binary_size < _JOIN_BELOW:
            connection.send((start, *encoded.binary))
        else:
            connection.write_parts((start, *encoded.binary))
            connection.sent()

    def _compress(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        encoded: HttpAnswer,
    ) -> None:
        size = len(encoded.json) + encoded.binary_size
        work = partial(_deflated, encoded, self._encoding)
        if size <= _DEFLATE_INLINE:
            self._compressed(connection, request, answer, encoded, work())
            return
        future = asyncio.get_running_loop().run_in_executor(None, work)

        def finish(done: "asyncio.Future[bytes | None]") -> None:
            if not done.cancelled() and not connection.closing:
                self._compressed(connection, request, answer, encoded, done.result())

        future.add_done_callback(finish)

    def _compressed(
        self,
        connection: Http1Connection,
        request: InferRequest,
        answer: InferResponse,
        encoded: HttpAnswer,
        body: bytes | None,
    ) -> None:
        if body is None:
            self._send_encoded(connection, request, answer, encoded)
            return
        headers = _headers(request, encoded, len(body))
        headers += b"Content-Encoding: %b\r\n" % self._encoding.encode()
        connection.send((headers, connection.connection_header(), b"\r\n", body))

    def _failed(
        self, connection: Http1Connection, request: InferRequest, fault: RuntimeFault
    ) -> None:
        if isinstance(fault, SingleAnswerOnly):
            fault = SingleAnswerOnly("HTTP end point")
        connection.reply(fault_reply(fault, version_headers(request)))


def _deflated(encoded: HttpAnswer, encoding: str) -> bytes | None:
    try:
        body = b"".join((encoded.json, *encoded.binary))
    except MemoryError:
        return None
    return compression.try_deflate(body, encoding)


def version_headers(request: InferRequest) -> Headers:
    version: Any = request.version
    if version is None:
        return ()
    headers = [(b"x-model-version", version.number_text.encode())]
    if request.arm:
        headers.append((b"x-rollout-arm", request.arm.encode()))
    return headers


def _headers(request: InferRequest, encoded: HttpAnswer, size: int) -> bytes:
    """Without the empty line."""
    lines = [STATUS_LINES[200]]
    if encoded.json_size:
        lines.append(
            b"Content-Type: %b\r\nInference-Header-Content-Length: %d\r\n"
            % (_BINARY, encoded.json_size)
        )
    else:
        lines.append(b"Content-Type: %b\r\n" % JSON)
    lines.extend(b"%b: %b\r\n" % header for header in version_headers(request))
    lines.append(b"Content-Length: %d\r\n" % size)
    return b"".join(lines)
