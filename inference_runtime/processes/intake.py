"""The executor's side of a link: requests of one front-end process go to the core, answers back to it.

A front end that dies takes its requests with it: they are cancelled, and nobody else notices.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import orjson

from inference_runtime.errors import FailureReason, Internal, RuntimeFault
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.processes import frames, messages
from inference_runtime.processes.frames import HEAD_SIZE, pack_head
from inference_runtime.processes.groups import AnswerGroup, Layout, NamedHead, read_requests
from inference_runtime.processes.link import Link
from inference_runtime.processes.ring import BrokenRing, Bytes
from inference_runtime.protocol.memo import Memo
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    RequestHead,
    ResponseHead,
)

_log = logging.getLogger(__name__)

HTTP: Final = "HTTP"  # as traces call the protocol
HEADS: Final = 4096  # that a front end may have named at once
_ANSWER_HEADS: Final = 2048
_CALLS: Final = 2048  # of one front end, under way; it stops at half as many
# A front end that leaves this much unread has stopped reading, and is ended.
UNREAD_LIMIT: Final = 1 << 30

Called = Callable[[Any, bytes], "Replied | Awaitable[Replied]"]
Replied = tuple[Any, bytes]  # JSON, and bytes behind it


class Origin:
    """How a request came in, for its trace. Shared by all with the same head and no header of their own."""

    __slots__ = ("_traceparent", "protocol")

    def __init__(self, protocol: str, traceparent: str = "") -> None:
        self.protocol = protocol
        self._traceparent = traceparent

    def header(self, name: str) -> str:
        return self._traceparent if name == "traceparent" else ""


class _Known:
    """A head that the front end has named."""

    __slots__ = ("head", "layout", "origin")

    def __init__(self, head: RequestHead, layout: Layout, protocol: str) -> None:
        self.head = head
        self.layout = layout
        self.origin = Origin(protocol)


class _Asked(InferRequest):
    """`ticket`: what the front end calls it. Its context is how it came in."""

    __slots__ = ("ticket",)
    ticket: int


class HeadMemory:
    """One head for equal heads of all front ends: validation is remembered by the head's identity."""

    def __init__(self) -> None:
        self._heads: Memo[bytes, RequestHead] = Memo(limit_count=HEADS, limit_bytes=16 << 20)

    def head(self, text: bytes) -> RequestHead:
        head = self._heads.get(text)
        if head is None:
            head = messages.read_request_head(orjson.loads(text))
            self._heads.put(text, head, len(text))
        return head


class Intake:
    """`call` answers what is no inference. `stuck` is called when the front end has stopped reading."""

    def __init__(
        self,
        core: CorePort,
        link: Link,
        heads: HeadMemory,
        *,
        call: Called,
        stuck: Callable[[], None],
    ) -> None:
        self._core = core
        self._link = link
        self._memory = heads
        self._call = call
        self._stuck = stuck
        self._heads: dict[int, _Known] = {}
        self._requests: dict[int, _Asked] = {}
        self._taking: _Asked | None = None  # while the core is asked for it
        self._answers = AnswerGroup(link, self._answer_alone)
        self._answer_heads: dict[tuple[ResponseHead, str], NamedHead] = {}
        self._latest: tuple[ResponseHead | None, str, NamedHead | None] = (None, "", None)
        self._calls: set[asyncio.Task[None]] = set()
        self._closed = False
        self._kinds: dict[int, Callable[[Bytes, int, int, int, int], None]] = {
            frames.INFER_MORE: self._infer_more,
            frames.REQUEST_HEAD: self._head,
            frames.FORGET: self._forget,
            frames.CANCEL: self._cancel,
            frames.CALL: self._called,
            frames.REFUSAL: self._refusal,
        }

    @property
    def inflight(self) -> int:
        return len(self._requests)

    def received(self, message: Bytes) -> None:
        """All frames of a message. Raises BrokenRing."""
        at, end = 0, len(message)
        unpack, infer = frames.unpack_head, frames.INFER
        while at < end:
            if end - at < HEAD_SIZE:
                raise BrokenRing("a message that ends in the head of a frame")
            size, kind, _, number, ticket, count = unpack(message, at)
            start, stop = at + HEAD_SIZE, at + size
            if size < HEAD_SIZE or stop > end:
                raise BrokenRing(f"a frame of {size} bytes")
            if kind == infer:
                known = self._heads.get(number)
                if known is None:
                    raise BrokenRing(f"requests with head {number}")
                read = read_requests(known.layout, message, start, stop, count)
                self._infer(known, ticket, *read)
            else:
                handler = self._kinds.get(kind)
                if handler is None:
                    raise BrokenRing(f"a frame of kind {kind}")
                handler(message, start, stop, number, ticket)
            at = stop
        self._taking = None

    def _infer(
        self, known: _Known, ticket: int, stamps: Sequence[int], rows: Sequence[Sequence[Bytes]]
    ) -> None:
        head, origin, done = known.head, known.origin, self._done
        requests, infer = self._requests, self._core.infer
        for stamp, data in zip(stamps, rows, strict=True):
            request = _Asked(head, data, done, origin, stamp)
            request.ticket = ticket
            requests[ticket] = self._taking = request
            infer(request)
            ticket += 1

    def send_log_settings(self, values: dict[str, Any]) -> None:
        self._send(frames.LOG_SETTINGS, 0, 0, 0, (orjson.dumps(values),))

    def close(self) -> None:
        """The front end is gone."""
        self._closed = True
        requests = list(self._requests.values())
        self._requests.clear()
        for request in requests:
            self._core.cancel(request)
        self._answer_heads.clear()
        self._latest = (None, "", None)
        self._heads.clear()

    def _head(self, message: Bytes, start: int, stop: int, number: int, _: int) -> None:
        if number >= HEADS:
            raise BrokenRing(f"head {number}")
        (sizes, protocol), after = frames.read_text(message, start, stop)
        head = self._memory.head(bytes(message[after:stop]))
        self._heads[number] = _Known(head, Layout(sizes), protocol)

    def _forget(self, message: Bytes, start: int, stop: int, number: int, ticket: int) -> None:
        self._heads.clear()

    def _cancel(self, message: Bytes, start: int, stop: int, number: int, ticket: int) -> None:
        request = self._requests.get(ticket)
        if request is not None:
            self._core.cancel(request)

    def _refusal(self, message: Bytes, start: int, stop: int, number: int, ticket: int) -> None:
        reason = FailureReason.CLIENT if number else FailureReason.REJECTED
        self._core.count_refused(reason, ticket)

    def _infer_more(self, message: Bytes, start: int, stop: int, number: int, ticket: int) -> None:
        known = self._heads.get(number)
        if known is None:
            raise BrokenRing(f"a request with head {number}")
        more, after = frames.read_text(message, start, stop)
        data = frames.cut(message, after, stop, tuple(more["sizes"]))
        origin = known.origin
        if more["trace"]:
            origin = Origin(origin.protocol, more["trace"])
        request = _Asked(known.head, data, self._done, origin, more["received"], more["id"])
        request.ticket = ticket
        request.deadline_ns = more["deadline"]
        request.traffic_unit = more["unit"]
        if more["partial"]:
            request.partial = self._partial
        self._requests[ticket] = self._taking = request
        if more["regions"] is None:
            self._core.infer(request)
        else:
            self._infer_with_regions(request, more["regions"], more["local"], more["in_turn"])

    def _infer_with_regions(self, request: _Asked, value: Any, local: bool, in_turn: bool) -> None:
        plan = messages.read_region_plan(value)
        try:
            use = self._core.region_use(plan, self._done, local=local, in_turn=in_turn)
        except RuntimeFault as fault:
            missing = self._missing(request.head) if request.context.protocol == HTTP else None
            self._done(request, missing or fault)
            return
        request.done = use.done
        if request.partial is not None:
            request.partial = use.partial(self._partial)
        use.start(request, self._core.infer)

    def _missing(self, head: RequestHead) -> RuntimeFault | None:
        """That the model is not there at all goes before what is wrong with its regions."""
        try:
            self._core.model_config(head.model_name, head.version)
        except RuntimeFault as fault:
            return fault
        return None

    def _done(self, request: InferRequest, answer: Answer) -> None:
        assert isinstance(request, _Asked)
        if self._requests.pop(request.ticket, None) is None:
            return  # the front end is gone
        if isinstance(answer, InferResponse):
            head, arm, named = self._latest
            if named is None or answer.head is not head or request.arm != arm:
                named = self._named(request, answer)
            if request.partial is None:
                self._answers.add(named, request.ticket, answer.data)
            else:
                self._answer_alone(named, request.ticket, answer.data)
        else:
            self._fault(request, answer, frames.REFUSED if request is self._taking else 0)

    def _partial(self, request: InferRequest, answer: Answer) -> None:
        assert isinstance(request, _Asked)
        if self._closed or request.cancelled:
            return
        if self._link.unsent > UNREAD_LIMIT:
            self._stuck()
            return
        if isinstance(answer, InferResponse):
            named = self._named(request, answer)
            self._answer_alone(named, request.ticket, answer.data, frames.PARTIAL)
        else:
            self._fault(request, answer, frames.PARTIAL)

    def _answer_alone(
        self, named: NamedHead, ticket: int, data: Sequence[Bytes], flags: int = 0
    ) -> None:
        # A client of generate may have asked for the blocks; only its front end knows.
        said = {"sizes": [len(part) for part in data], "blocks": self._core.kv_cache_blocks()}
        prefix, _ = frames.with_text(said)
        self._send(frames.ANSWER, flags, named.number, ticket, (prefix, *data))

    def _named(self, request: InferRequest, answer: InferResponse) -> NamedHead:
        """The answer's head, of which the front end knows when it is first used."""
        key = (answer.head, request.arm)
        named = self._answer_heads.get(key)
        if named is None:
            if len(self._answer_heads) >= _ANSWER_HEADS:
                self._answer_heads.clear()
                self._send(frames.FORGET_RESPONSES, 0, 0, 0, ())
            named = self._answer_heads[key] = self._name(request, answer)
        self._latest = (*key, named)
        return named

    def _name(self, request: InferRequest, answer: InferResponse) -> NamedHead:
        number = len(self._answer_heads)
        sizes = [len(part) for part in answer.data]
        value = {
            "head": messages.response_head_value(answer.head),
            "sizes": sizes,
            "arm": request.arm,
            "version": _version_value(request.version),
        }
        self._send(frames.RESPONSE_HEAD, 0, number, 0, (orjson.dumps(value),))
        return NamedHead(number, Layout(sizes))

    def _fault(self, request: _Asked, fault: RuntimeFault, flags: int) -> None:
        value = {
            "fault": messages.fault_value(fault),
            "arm": request.arm,
            "version": _version_value(request.version),
        }
        self._send(frames.FAULT, flags, 0, request.ticket, (orjson.dumps(value),))

    # Calls

    def _called(self, message: Bytes, start: int, stop: int, number: int, ticket: int) -> None:
        which, after = frames.read_text(message, start, stop)
        body = bytes(message[after:stop])
        if len(self._calls) >= _CALLS:
            raise BrokenRing(f"more than {_CALLS} calls at once")
        task = asyncio.get_running_loop().create_task(self._reply(ticket, which, body))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _reply(self, ticket: int, which: Any, body: bytes) -> None:
        flags, given = 0, b""
        try:
            replied = self._call(which, body)
            text, given = replied if isinstance(replied, tuple) else await replied
        except RuntimeFault as fault:
            flags, text = frames.FAILED, messages.fault_value(fault)
        except Exception:  # noqa: BLE001 - a bug in one call must not cost the front end
            _log.exception("a call failed")
            flags, text = frames.FAILED, messages.fault_value(Internal("the call failed"))
        if not self._closed:
            self._send(frames.REPLY, flags, 0, ticket, frames.with_text(text, given))

    def _send(
        self, kind: int, flags: int, number: int, ticket: int, body: tuple[Bytes, ...]
    ) -> None:
        size = HEAD_SIZE + sum(map(len, body))
        self._link.send(pack_head(size, kind, flags, number, ticket, 0), body, size)


def _version_value(version: Any) -> dict[str, Any] | None:
    if version is None:
        return None
    return {
        "number": version.number_text,
        "labels": {name: list(lines) for name, lines in version.labels.items()},
        "batching": version.config.batching,
        "decoupled": version.config.decoupled,
    }
