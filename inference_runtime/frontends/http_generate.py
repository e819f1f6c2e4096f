"""The generate extension over HTTP: one JSON answer, or each response as a server-sent event when it comes."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Final

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.frontends.core_port import InferenceCore
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import (
    STATUS_LINES,
    Headers,
    HttpReply,
    fault_reply,
)
from inference_runtime.frontends.http_infer_reply import version_headers
from inference_runtime.frontends.http_routes import Entry, MakeRoute, segments
from inference_runtime.protocol import endpoint_load, error_codec, generate_codec
from inference_runtime.protocol.generate_codec import GenerateInput
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse

_log = logging.getLogger(__name__)
KvCacheBlocks = Callable[[], Mapping[str, float]]  # counts by kind

# A client that reads slower than the model writes is cut off when this much waits for it.
_UNSENT_LIMIT: Final = 64 << 20
_NOT_ONE: Final = (
    "generate expects model to produce exactly 1 response, use generate stream for model that "
    "generates various number of responses"
)


class GenerateService:
    """What the generate routes of one server share."""

    def __init__(
        self, core: InferenceCore, kv_cache_blocks: KvCacheBlocks, *, max_input_bytes: int
    ) -> None:
        self.core = core
        self._kv_cache_blocks = kv_cache_blocks
        self.max_input_bytes = max_input_bytes

    def route(self, model_name: str, version: str, *, stream: bool) -> "GenerateRoute":
        return GenerateRoute(self, model_name, version, stream=stream)

    def load_headers(self, format_: str) -> Headers:
        """What a client that asked for it in this format is told of the load."""
        value = endpoint_load.header_value(format_, self._kv_cache_blocks()) if format_ else b""
        return [(endpoint_load.NAME, value)] if value else ()

    def inputs(self, model_name: str, version: str) -> dict[str, GenerateInput]:
        metadata = self.core.model_metadata(model_name, version)
        return {
            entry.name: GenerateInput(entry.name, entry.datatype, tuple(entry.shape))
            for entry in metadata.inputs
        }


class GenerateRoute:
    __slots__ = ("_model_name", "_service", "_stream", "_version", "body_limit")

    def __init__(
        self, service: GenerateService, model_name: str, version: str, *, stream: bool
    ) -> None:
        self._service = service
        self._model_name = model_name
        self._version = version
        self._stream = stream
        self.body_limit = service.max_input_bytes

    def run(
        self, connection: Http1Connection, head: RequestHead1, buffer: bytes, start: int, stop: int
    ) -> None:
        now_ns = monotonic_ns()
        core = self._service.core
        try:
            if head.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
                raise InvalidArgument("Unsupported content-encoding, only 'identity' is supported.")
            asked = generate_codec.decode(
                buffer[start:stop],
                model_name=self._model_name,
                version=self._version,
                inputs=self._service.inputs(self._model_name, self._version),
                limit=self._service.max_input_bytes,
            )
        except RuntimeFault as fault:
            core.count_refused(fault.reason)
            connection.reply(fault_reply(fault))
            return
        form = head.headers.get(endpoint_load.FORMAT, "")
        answers = (
            _EventStream(connection, self._service, form)
            if self._stream
            else _SingleAnswer(connection, self._service, form)
        )
        request = InferRequest(asked.head, asked.data, answers.done, connection, now_ns, asked.id)
        request.partial = answers.partial
        connection.request = request
        unit_header = core.unit_header(self._model_name)
        if unit_header:
            request.traffic_unit = head.headers.get(unit_header, "")
        core.infer(request)
        answers.accepted = True

    def gone(self, connection: Http1Connection) -> None:
        if connection.request is not None:
            self._service.core.cancel(connection.request)

    def too_large(self, size: int) -> HttpReply:
        fault = InvalidArgument(
            f"request JSON size of {size} bytes exceeds the maximum allowed input size of "
            f"{self.body_limit} bytes. Use --http-max-input-size to increase the limit."
        )
        self._service.core.count_refused(fault.reason)
        return fault_reply(fault)


class _SingleAnswer:
    """Waits for the end, and for exactly one response before it or with it."""

    __slots__ = ("_connection", "_count", "_first", "_load_format", "_service", "accepted")

    def __init__(
        self, connection: Http1Connection, service: GenerateService, load_format: str
    ) -> None:
        self._connection = connection
        self._service = service
        self._load_format = load_format
        self._first: Answer | None = None
        self._count = 0
        self.accepted = False

    def partial(self, request: InferRequest, answer: Answer) -> None:
        self._count += 1
        if self._count == 1:
            self._first = answer
        else:
            self._first = None  # more than one is an error, whatever they are

    def done(self, request: InferRequest, answer: Answer) -> None:
        self._connection.request = None
        if not (isinstance(answer, InferResponse) and answer.head.empty):
            self.partial(request, answer)
        if self._connection.closing:
            return
        try:
            self._connection.reply(self._reply(request))
        except Exception:  # noqa: BLE001 - a bug in one answer must not cost its batch mates
            _log.exception("an answer could not be sent")
            self._connection.abort()

    def _reply(self, request: InferRequest) -> HttpReply:
        headers = version_headers(request)
        first = self._first
        if first is None:
            return fault_reply(Internal(_NOT_ONE), headers)
        if not isinstance(first, InferResponse):
            return fault_reply(first, headers)
        try:
            body = generate_codec.encode(first, request.id)
            headers = [*headers, *self._service.load_headers(self._load_format)]
            return HttpReply(body, headers=headers)
        except RuntimeFault as fault:
            return fault_reply(fault, headers)


class _EventStream:
    """Writes each response as it comes; the first decides the status."""

    __slots__ = ("_chunked", "_connection", "_load_format", "_service", "_started", "accepted")

    def __init__(
        self, connection: Http1Connection, service: GenerateService, load_format: str
    ) -> None:
        self._connection = connection
        self._service = service
        self._load_format = load_format
        self._started = False
        # HTTP/1.0 knows no chunks: its stream ends with its connection.
        self._chunked = connection.current is None or not connection.current.head.old
        self.accepted = False

    def partial(self, request: InferRequest, answer: Answer) -> None:
        connection = self._connection
        if connection.closing:
            return
        unsent = (
            connection.transport.get_write_buffer_size()
        )  # an event may be as large as it likes
        try:
            self._event(request, answer)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("an event could not be sent")
            connection.abort()
            return
        if unsent > _UNSENT_LIMIT:
            _log.warning("a client of generate_stream reads too slowly and is cut off")
            connection.abort()

    def done(self, request: InferRequest, answer: Answer) -> None:
        connection = self._connection
        connection.request = None
        if connection.closing:
            return
        if isinstance(answer, RuntimeFault) and (answer.refused or not self.accepted):
            # Refused before it could begin: an ordinary error.
            connection.reply(fault_reply(answer, version_headers(request)))
            return
        if isinstance(answer, InferResponse) and answer.head.empty:
            self._start(request, 200)
        else:
            self.partial(request, answer)
        self._end(connection)

    def _end(self, connection: Http1Connection) -> None:
        if connection.closing:
            return
        if self._chunked:
            connection.write(b"0\r\n\r\n")
            connection.sent()
        else:
            connection.close()

    def _event(self, request: InferRequest, answer: Answer) -> None:
        status = 200
        try:
            if not isinstance(answer, InferResponse):
                raise answer
            document = generate_codec.encode(answer, request.id)
        except RuntimeFault as fault:
            status = error_codec.http_status(fault)
            document = error_codec.http_body(fault.text)
        self._start(request, status)
        event = generate_codec.event(document)
        if self._chunked:
            event = b"%x\r\n%b\r\n" % (len(event), event)
        self._connection.write(event)

    def _start(self, request: InferRequest, status: int) -> None:
        if self._started:
            return
        self._started = True
        lines = [STATUS_LINES[status], b"Content-Type: text/event-stream; charset=utf-8\r\n"]
        lines.append(b"Cache-Control: no-cache\r\n")
        headers = [*version_headers(request), *self._service.load_headers(self._load_format)]
        lines.extend(b"%b: %b\r\n" % header for header in headers)
        if self._chunked:
            lines.append(b"Transfer-Encoding: chunked\r\n")
            lines.append(self._connection.connection_header())
        else:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        self._connection.write(b"".join(lines))


def generate_entries(service: GenerateService) -> list[Entry]:
    def make(*, stream: bool) -> MakeRoute:
        return lambda head, arguments: service.route(
            arguments["m"], arguments.get("v", ""), stream=stream
        )

    return [
        Entry("POST", segments(f"/v2/models/{{m}}{version}/{verb}"), make(stream=stream))
        for verb, stream in (("generate", False), ("generate_stream", True))
        for version in ("", "/versions/{v}")
    ]
