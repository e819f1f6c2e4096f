"""Infer over HTTP: from a body to the core and back, without a task or a future on the usual way."""

import asyncio
import logging
import re
from functools import partial
from time import monotonic_ns
from typing import Final

from inference_runtime.errors import (
    InvalidArgument,
    RuntimeFault,
    SingleAnswerOnly,
    Unsupported,
)
from inference_runtime.frontends.core_port import InferenceCore
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import Headers, HttpReply, fault_reply
from inference_runtime.frontends.http_infer_reply import InferReplies
from inference_runtime.frontends.http_plan import (
    HttpPlan,
    HttpTarget,
    PlanMemory,
    WholeRequest,
    split_id,
    whole_request,
)
from inference_runtime.frontends.peer import is_loopback
from inference_runtime.protocol import compression, json_reader
from inference_runtime.protocol.http_codec import HttpInfer, decode_infer, split_binary
from inference_runtime.protocol.http_raw import decode_raw
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.spec.messages import Bytes, InferRequest

_log = logging.getLogger(__name__)

JSON_SIZE: Final = "inference-header-content-length"
_NUMBER: Final = re.compile(r"-?[0-9]+")
_INFLATE_INLINE: Final = 16384
# JSON of this size stops the loop for longer than others should wait: it is read in a thread.
_HEAVY: Final = 1 << 18
_RAISE_IT: Final = " Use --http-max-input-size to increase the limit."
_NO_JSON_SIZE: Final = -1


class InferService:
    """What all infer routes of one server share."""

    def __init__(self, core: InferenceCore, *, max_input_bytes: int, max_body_bytes: int) -> None:
        self.core = core
        self.max_input_bytes = max_input_bytes
        self.max_body_bytes = max_body_bytes
        self.memory = PlanMemory()
        self.heads = RequestHeads()

    def route(self, model_name: str, version: str, head: RequestHead1) -> "InferRoute":
        return InferRoute(self, self.memory.target(model_name, version), head)

    def oversized(self, json_size: int, size: int) -> InvalidArgument:
        limit = self.max_input_bytes
        if json_size == 0:
            text = f"Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes."
        else:
            text = f"request JSON size of {size} bytes exceeds the maximum allowed input size of {limit} bytes."
        return InvalidArgument(text + _RAISE_IT)


class InferRoute:
    """Serves the infer requests that share one head."""

    __slots__ = (
        "_done",
        "_encoding",
        "_fault",
        "_json_size",
        "_plain",
        "_plans",
        "_service",
        "_target",
        "body_limit",
    )

    def __init__(self, service: InferService, target: HttpTarget, head: RequestHead1) -> None:
        self._service = service
        self._target = target
        self._plans = target.plans
        self._fault: RuntimeFault | None = None
        try:
            self._json_size = _json_size(head)
        except InvalidArgument as fault:
            self._fault, self._json_size = fault, _NO_JSON_SIZE
        self._encoding = head.headers.get("content-encoding", "").strip().lower()
        self._plain = self._encoding in ("", "identity")
        self.body_limit = service.max_body_bytes
        if self._plain and self._json_size <= 0:
            self.body_limit = min(service.max_input_bytes, service.max_body_bytes)
        accepted = compression.choose(head.headers.get("accept-encoding", ""))
        self._done = InferReplies("" if accepted == "identity" else accepted).done

    def run(
        self, connection: Http1Connection, head: RequestHead1, buffer: bytes, start: int, stop: int
    ) -> None:
        now_ns = monotonic_ns()
        size = self._json_size
        if size > 0 and self._plain:
            base = start + size
            plan = self._plans.get(buffer[start:base])
            if plan is not None and stop - base == plan.quick_size:
                known = connection.current
                if (
                    known is not None
                    and known.route is self  # and nobody around it, who wants to hear of each
                    and start == known.size
                    and stop == len(buffer)
                ):
                    connection.whole = whole_request(known, plan, buffer[:base], self.run_whole)
                self._submit(connection, head, plan, plan.data(buffer, base), "", now_ns)
                return
        try:
            self._slow(connection, head, buffer[start:stop], now_ns)
        except RuntimeFault as fault:
            connection.reply(self._refusal(fault))

    def run_whole(self, connection: Http1Connection, whole: WholeRequest, data: bytes) -> None:
        """What `run` and `_submit` do, for a request like the one before it on its connection."""
        now_ns = monotonic_ns()
        plan = whole.plan
        head = plan.head
        core = self._service.core
        request = InferRequest(head, whole.tensors(data), self._done, connection, now_ns)
        request.sizes = plan.sizes
        connection.request = request
        connection.plan = plan
        unit_header = core.unit_header(head.model_name)
        if unit_header:
            request.traffic_unit = whole.known.head.headers.get(unit_header, "")
        core.infer(request)

    def gone(self, connection: Http1Connection) -> None:
        if connection.request is not None:
            self._service.core.cancel(connection.request)

    def too_large(self, size: int) -> HttpReply:
        service = self._service
        if self.body_limit < service.max_body_bytes:
            return self._refusal(service.oversized(self._json_size, size))
        # Tensors behind the JSON, or compressed data: no option is about these.
        text = f"request body of {size} bytes exceeds the {service.max_body_bytes} bytes that one may have"
        return self._refusal(InvalidArgument(text))

    def _refusal(self, fault: RuntimeFault, headers: Headers = ()) -> HttpReply:
        """To a request that the core does not get to see, and counts."""
        denial = self._denial()
        self._service.core.count_refused((denial or fault).reason)
        return fault_reply(denial) if denial is not None else fault_reply(fault, headers)

    def _denial(self) -> RuntimeFault | None:
        """What goes before any fault of the request's form: no such model, or none for a single answer."""
        target = self._target
        try:
            config = self._service.core.model_config(target.model_name, target.version)
        except RuntimeFault as missing:
            return missing
        decoupled = config.model_transaction_policy.decoupled
        return SingleAnswerOnly("HTTP end point") if decoupled else None

    def _submit(
        self,
        connection: Http1Connection,
        head: RequestHead1,
        plan: HttpPlan,
        data: list[Bytes],
        id_: str,
        now_ns: int,
    ) -> None:
        core = self._service.core
        infer, done = core.infer, self._done
        if plan.regions is not None:
            try:
                local = is_loopback(connection.transport)
                use = core.region_use(plan.regions, done, local=local)
            except RuntimeFault as fault:  # which is counted there
                connection.reply(fault_reply(self._denial() or fault))
                return
            infer, done = partial(use.start, infer=infer), use.done
        request = InferRequest(plan.head, data, done, connection, now_ns, id_)
        connection.request = request
        connection.plan = plan
        unit_header = core.unit_header(plan.head.model_name)
        if unit_header:
            request.traffic_unit = head.headers.get(unit_header, "")
        infer(request)

    def _slow(
        self, connection: Http1Connection, head: RequestHead1, body: bytes, now_ns: int
    ) -> None:
        if self._plain:
            self._read(connection, head, body, now_ns)
            return
        if self._encoding not in ("gzip", "deflate"):
            accepted = [(b"Accept-Encoding", b"gzip, deflate")]
            connection.reply(self._refusal(Unsupported("Unsupported compression type"), accepted))
            return
        work = partial(_inflate, body, self._service.max_input_bytes)
        if len(body) <= _INFLATE_INLINE:
            self._read(connection, head, work(), now_ns)
            return
        future = asyncio.get_running_loop().run_in_executor(None, work)
        future.add_done_callback(partial(self._inflated, connection, head, now_ns))

    def _inflated(
        self,
        connection: Http1Connection,
        head: RequestHead1,
        now_ns: int,
        future: "asyncio.Future[bytes]",
    ) -> None:
        if future.cancelled() or connection.closing:
            return
        try:
            self._read(connection, head, future.result(), now_ns)
        except RuntimeFault as fault:
            connection.reply(self._refusal(fault))
        except Exception:  # noqa: BLE001 - nobody else waits for this future
            _log.exception("a body could not be decompressed")
            connection.abort()

    def _read(
        self, connection: Http1Connection, head: RequestHead1, body: bytes, now_ns: int
    ) -> None:
        if self._fault is not None:
            raise self._fault
        if self._json_size == 0:
            self._read_raw(connection, head, body, now_ns)
            return
        size = self._document_size(len(body))
        document = body[:size]
        id_, key = split_id(document)
        plan = self._target.plans.get(key)
        if plan is not None and len(body) - size == plan.data_size:
            self._submit(connection, head, plan, plan.data(body, size), id_, now_ns)
            return
        if size > _HEAVY:
            work = partial(self._decode, document)
            future = asyncio.get_running_loop().run_in_executor(None, work)
            future.add_done_callback(partial(self._decoded, connection, head, body[size:], now_ns))
            return
        infer = self._decode(document)
        split_binary(infer, len(body) - size)
        memory = self._service.memory
        # What is remembered is what the key itself says, and nothing with an id in it.
        if memory.may_keep(key, infer) and not (
            infer.id if key is document else self._decode(key).id
        ):
            plan = memory.keep(self._target, key, infer)
        else:
            plan = HttpPlan(infer)
        self._submit(connection, head, plan, _gather(plan, infer, body, size), infer.id, now_ns)

    def _decoded(
        self,
        connection: Http1Connection,
        head: RequestHead1,
        binary: bytes,
        now_ns: int,
        future: "asyncio.Future[HttpInfer]",
    ) -> None:
        if future.cancelled() or connection.closing:
            return
        try:
            infer = future.result()
            split_binary(infer, len(binary))
        except RuntimeFault as fault:
            connection.reply(self._refusal(fault))
        except Exception:  # noqa: BLE001 - nobody else waits for this future
            _log.exception("a request could not be read")
            connection.abort()
        else:
            plan = HttpPlan(infer)
            data = _gather(plan, infer, binary, 0)
            self._submit(connection, head, plan, data, infer.id, now_ns)

    def _document_size(self, available: int) -> int:
        """Bytes of JSON at the start of the body."""
        size = available if self._json_size == _NO_JSON_SIZE else self._json_size
        if size > available:
            raise InvalidArgument(
                f"inference header size should be in range (0, {available}), got: {size}"
            )
        if size > self._service.max_input_bytes:
            raise self._service.oversized(self._json_size, size)
        return size

    def _decode(self, document: bytes) -> HttpInfer:
        return decode_infer(
            json_reader.parse(document),
            self._target.key,
            self._service.heads,
            self._service.max_input_bytes,
        )

    def _read_raw(
        self, connection: Http1Connection, head: RequestHead1, body: bytes, now_ns: int
    ) -> None:
        service, target = self._service, self._target
        if len(body) > service.max_input_bytes:
            raise service.oversized(0, len(body))
        config = service.core.model_config(target.model_name, target.version)
        infer, data = decode_raw(config, target.key, body, service.heads)
        self._submit(connection, head, HttpPlan(infer), [data], "", now_ns)


def _gather(plan: HttpPlan, infer: HttpInfer, body: bytes, base: int) -> list[Bytes]:
    """Data from the JSON where it was there, else from behind it."""
    return [
        source if isinstance(source, bytes) else binary
        for source, binary in zip(infer.sources, plan.data(body, base), strict=True)
    ]


def _inflate(body: bytes, limit_bytes: int) -> bytes:
    try:
        return compression.inflate(body, limit_bytes)
    except compression.TooLarge:
        raise InvalidArgument(
            f"Decompressed data size exceeds the maximum allowed value of {limit_bytes} bytes.{_RAISE_IT}"
        ) from None


def _json_size(head: RequestHead1) -> int:
    """Of the Inference-Header-Content-Length header; -1: not there, the whole body is JSON."""
    text = head.headers.get(JSON_SIZE)
    if text is None:
        return _NO_JSON_SIZE
    if _NUMBER.fullmatch(text) is None:
        raise InvalidArgument(f"Unable to parse Inference-Header-Content-Length, got: {text}")
    value = int(text[:32])
    if not -(2**31) <= value < 2**31:
        raise InvalidArgument(
            "Unable to parse Inference-Header-Content-Length, value is out of range "
            f"[ {-(2**31)}, {2**31 - 1} ], got: {text}"
        )
    if value < 0 or (0 <= head.length < value and head.headers.get("content-encoding") is None):
        raise InvalidArgument(
            f"inference header size should be in range (0, {max(head.length, 0)}), got: {value}"
        )
    return value
