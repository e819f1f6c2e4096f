"""The core as a front-end process sees it: requests go to the executor, answers come from there."""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.processes import frames, messages
from inference_runtime.processes.catalogue import Catalogue
from inference_runtime.processes.frames import HEAD_SIZE, pack_head
from inference_runtime.processes.intake import HEADS
from inference_runtime.processes.link import Link
from inference_runtime.processes.ring import BrokenRing, Bytes
from inference_runtime.protocol.memo import Memo
from inference_runtime.spec.messages import (
    Answer,
    Done,
    InferRequest,
    InferResponse,
    RequestHead,
    ResponseHead,
)
from inference_runtime.spec.region_span import RegionPlan
from inference_runtime.telemetry.logs import RuntimeLog

_log = logging.getLogger(__name__)

_TICKETS: Final = 1 << 32
# What the executor has not taken yet; more is refused, so that a stop of its does not fill the memory.
UNSENT_LIMIT: Final = 2 << 30
_VERSIONS: Final = 256
_BUSY: Final = "the executor does not take requests as fast as they come; try again"


@dataclass(frozen=True, slots=True)
class VersionConfig:
    batching: bool
    decoupled: bool


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What front ends read of the version that answered."""

    number_text: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    config: VersionConfig = VersionConfig(batching=False, decoupled=False)


_DECOUPLED: Final = VersionFacts("", config=VersionConfig(batching=False, decoupled=True))


class _Sent:
    """A head that the executor knows, and the sizes of tensors that go without a word."""

    __slots__ = ("number", "size", "sizes")

    def __init__(self, number: int, sizes: tuple[int, ...]) -> None:
        self.number = number
        self.sizes = sizes
        self.size = HEAD_SIZE + sum(sizes)


class _AnswerHead:
    __slots__ = ("arm", "cuts", "head", "size", "sizes", "version")

    def __init__(
        self, head: ResponseHead, sizes: tuple[int, ...], arm: str, version: VersionFacts | None
    ) -> None:
        self.head = head
        self.sizes = sizes
        self.arm = arm
        self.version = version
        self.size = HEAD_SIZE + sum(sizes)
        self.cuts: list[tuple[int, int]] = []
        at = HEAD_SIZE
        for size in sizes:
            self.cuts.append((at, at + size))
            at += size


class _Use:
    """How a request with regions goes: `plan` of the request while it is on its way to `RemoteCore.infer`."""

    __slots__ = ("_then", "in_turn", "local", "plan")

    def __init__(self, plan: RegionPlan, then: Done, *, local: bool, in_turn: bool) -> None:
        self.plan = plan
        self._then = then
        self.local = local
        self.in_turn = in_turn

    def done(self, request: InferRequest, answer: Answer) -> None:
        self._then(request, answer)

    def partial(self, then: Done) -> Done:
        return then

    def start(self, request: InferRequest, infer: Callable[[InferRequest], None]) -> None:
        request.plan = self
        infer(request)


class RemoteCore:
    """The part of the core that inference needs. In this process the plan of a request is its ticket."""

    def __init__(
        self, link: Link, catalogue: Catalogue, log: RuntimeLog, *, propagates: bool
    ) -> None:
        self.log = log
        self._link = link
        self._catalogue = catalogue
        self._propagates = propagates  # traces of clients go on in the executor
        self._heads: dict[RequestHead, _Sent] = {}
        self._requests: dict[int, InferRequest] = {}
        self._tickets = itertools.count(1)
        self._answer_heads: dict[int, _AnswerHead] = {}
        self._versions: Memo[bytes, VersionFacts] = Memo(limit_count=_VERSIONS)
        self.unit_header = catalogue.unit_header
        self._kinds: dict[int, Callable[[Bytes, int, int, int, int, int], None]] = {
            frames.FAULT: self._faulted,
            frames.RESPONSE_HEAD: self._head,
            frames.FORGET_RESPONSES: self._forget,
            frames.LOG_SETTINGS: self._log_settings,
        }

    @property
    def inflight(self) -> int:
        return len(self._requests)

    def handle(self, kind: int, handler: Callable[[Bytes, int, int, int, int, int], None]) -> None:
        """`handler` gets the frames of a kind: the message, from, to, flags, number, ticket."""
        self._kinds[kind] = handler

    # To the executor

    def infer(self, request: InferRequest) -> None:
        sent = self._heads.get(request.head)
        data = request.data
        if (
            sent is None
            or request.partial is not None
            or request.plan is not None
            or request.deadline_ns
            or request.id
            or request.traffic_unit
            or self._propagates
            or tuple(map(len, data)) != sent.sizes
            or self._link.unsent > UNSENT_LIMIT
        ):
            self._infer_more(request)
            return
        ticket = next(self._tickets) % _TICKETS
        self._requests[ticket] = request
        request.plan = ticket
        self._link.send(
            pack_head(sent.size, frames.INFER, 0, sent.number, ticket, request.received_ns),
            data,
            sent.size,
        )

    def cancel(self, request: InferRequest) -> None:
        request.cancelled = True
        ticket = request.plan
        if self._requests.get(ticket) is request:
            self._link.send(pack_head(HEAD_SIZE, frames.CANCEL, 0, 0, ticket, 0), (), HEAD_SIZE)

    def region_use(
        self, plan: RegionPlan, done: Done, *, local: bool, in_turn: bool = False
    ) -> _Use:
        """The regions are the executor's: it reads and writes them."""
        return _Use(plan, done, local=local, in_turn=in_turn)

    def _infer_more(self, request: InferRequest) -> None:
        if self._link.unsent > UNSENT_LIMIT:
            request.done(request, Unavailable(_BUSY))
            return
        try:
            number = self._number(request)
            prefix, _ = frames.with_text(self._more(request))
        except (TypeError, ValueError):  # what JSON can not say, nobody can mean
            request.done(request, InvalidArgument("the request holds text that is no Unicode"))
            return
        if request.partial is not None and self._catalogue.decoupled(request.head):
            request.version = _DECOUPLED
        ticket = next(self._tickets) % _TICKETS
        self._requests[ticket] = request
        request.plan = ticket
        size = HEAD_SIZE + len(prefix) + sum(map(len, request.data))
        head = pack_head(size, frames.INFER_MORE, 0, number, ticket, 0)
        self._link.send(head, (prefix, *request.data), size)

    def _more(self, request: InferRequest) -> dict[str, Any]:
        use: _Use | None = request.plan
        return {
            "sizes": [len(part) for part in request.data],
            "received": request.received_ns,
            "id": request.id,
            "deadline": request.deadline_ns,
            "unit": request.traffic_unit,
            "partial": request.partial is not None,
            "trace": request.context.header("traceparent") if self._propagates else "",
            "regions": messages.region_plan_value(use.plan) if use is not None else None,
            "local": use is not None and use.local,
            "in_turn": use is not None and use.in_turn,
        }

    def _number(self, request: InferRequest) -> int:
        """Of the head, which is sent before its number is first used."""
        sent = self._heads.get(request.head)
        if sent is not None:
            return sent.number
        if len(self._heads) >= HEADS:
            self._heads.clear()
            self._send(frames.FORGET, 0, ())
        number = len(self._heads)
        sizes = tuple(map(len, request.data))
        protocol = getattr(request.context, "protocol", "")
        head = orjson.dumps(messages.request_head_value(request.head))
        self._send(frames.REQUEST_HEAD, number, frames.with_text([sizes, protocol], head))
        self._heads[request.head] = _Sent(number, sizes)
        return number

    def _send(self, kind: int, number: int, body: tuple[Bytes, ...]) -> None:
        size = HEAD_SIZE + sum(map(len, body))
        self._link.send(pack_head(size, kind, 0, number, 0, 0), body, size)

    # From the executor

    def received(self, message: Bytes) -> None:
        """All frames of a message. Raises BrokenRing."""
        at, end = 0, len(message)
        unpack, heads, requests = frames.unpack_head, self._answer_heads, self._requests
        while at < end:
            size, kind, flags, number, ticket, _ = unpack(message, at)
            stop = at + size
            if size < HEAD_SIZE or stop > end:
                raise BrokenRing(f"a frame of {size} bytes")
            if kind == frames.ANSWER:
                known = heads[number]
                if not flags and size == known.size and size < frames.VIEW_FROM:
                    data = [message[at + first : at + last] for first, last in known.cuts]
                    request = requests.pop(ticket)
                    request.version = known.version
                    request.arm = known.arm
                    request.done(request, InferResponse(known.head, data))
                else:
                    self._answered(message, at + HEAD_SIZE, stop, flags, known, ticket)
            else:
                self._kinds[kind](message, at + HEAD_SIZE, stop, flags, number, ticket)
            at = stop

    def _answered(
        self, message: Bytes, start: int, stop: int, flags: int, known: _AnswerHead, ticket: int
    ) -> None:
        sizes = known.sizes
        if flags & frames.SIZED:
            own, start = frames.read_text(message, start, stop)
            sizes = tuple(own)
        data = frames.cut(message, start, stop, sizes)
        self._end(ticket, flags, known.version, known.arm, InferResponse(known.head, data))

    def _faulted(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        value = frames.read_json(message, start, stop)
        fault = messages.read_fault(value["fault"])
        fault.refused = bool(flags & frames.REFUSED)
        self._end(ticket, flags, self._version(value["version"]), value["arm"], fault)

    def _end(
        self, ticket: int, flags: int, version: VersionFacts | None, arm: str, answer: Answer
    ) -> None:
        partial = flags & frames.PARTIAL
        request = self._requests[ticket] if partial else self._requests.pop(ticket)
        request.version = version
        request.arm = arm
        if not partial:
            request.done(request, answer)
        elif request.partial is not None:
            request.partial(request, answer)

    def _head(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        value = frames.read_json(message, start, stop)
        self._answer_heads[number] = _AnswerHead(
            messages.read_response_head(value["head"]),
            tuple(value["sizes"]),
            value["arm"],
            self._version(value["version"]),
        )

    def _forget(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        self._answer_heads.clear()

    def _version(self, value: dict[str, Any] | None) -> VersionFacts | None:
        """One object for equal facts."""
        if value is None:
            return None
        key = orjson.dumps(value)
        facts = self._versions.get(key)
        if facts is None:
            config = VersionConfig(batching=value["batching"], decoupled=value["decoupled"])
            facts = VersionFacts(value["number"], value["labels"], config)
            self._versions.put(key, facts)
        return facts

    def _log_settings(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        self.log.change(**frames.read_json(message, start, stop))

    # What there is

    def model_config(self, name: str, version: str) -> pb.ModelConfig:
        return self._catalogue.config(name, version)

    def model_metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        return self._catalogue.metadata(name, version)
