"""The core as a front-end process sees it: requests go to the executor, answers come from there."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from inference_runtime import pb
from inference_runtime.errors import FailureReason, InvalidArgument, RuntimeFault, Unavailable
from inference_runtime.processes import frames, messages
from inference_runtime.processes.catalogue import Catalogue
from inference_runtime.processes.frames import HEAD_SIZE, pack_head
from inference_runtime.processes.groups import Layout, NamedHead, RequestGroup, read_answers
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


class _AnswerHead:
    __slots__ = ("arm", "head", "layout", "version")

    def __init__(
        self, head: ResponseHead, layout: Layout, arm: str, version: VersionFacts | None
    ) -> None:
        self.head = head
        self.layout = layout
        self.arm = arm
        self.version = version


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
        self,
        link: Link,
        catalogue: Catalogue,
        log: RuntimeLog,
        *,
        propagates: bool,
        first_ticket: int = 1,
    ) -> None:
        self.log = log
        self._link = link
        self._catalogue = catalogue
        self._propagates = propagates  # traces of clients go on in the executor
        self._heads: dict[RequestHead, NamedHead] = {}
        self._group = RequestGroup(link, self._infer_sized, first_ticket=first_ticket)
        self._requests = self._group.underway
        self._answer_heads: dict[int, _AnswerHead] = {}
        self._blocks: Mapping[str, float] = {}
        self._versions: Memo[bytes, VersionFacts] = Memo(limit_count=_VERSIONS)
        self._refused = [0, 0]  # not yet told: by our fault, by the clients'
        self.unit_header = catalogue.unit_header
        self._kinds: dict[int, Callable[[Bytes, int, int, int, int, int], None]] = {
            frames.ANSWER: self._answered,
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
        named = self._heads.get(request.head)
        if (
            named is None
            or request.partial is not None
            or request.plan is not None
            or request.deadline_ns
            or request.id
            or request.traffic_unit
            or self._propagates
            or self._link.unsent > UNSENT_LIMIT
        ):
            self._infer_more(request)
        else:
            self._group.add(named, request)

    def cancel(self, request: InferRequest) -> None:
        request.cancelled = True
        ticket = request.plan
        if self._requests.get(ticket) is request:
            self._link.send(pack_head(HEAD_SIZE, frames.CANCEL, 0, 0, ticket, 0), (), HEAD_SIZE)

    def count_refused(self, reason: FailureReason, count: int = 1) -> None:
        number = int(reason is FailureReason.CLIENT)
        self._refused[number] += count
        # While the executor does not read, what is refused must not fill the memory: it goes with a later one.
        if self._link.unsent <= UNSENT_LIMIT:
            self._send(frames.REFUSAL, number, (), self._refused[number])
            self._refused[number] = 0

    def region_use(
        self, plan: RegionPlan, done: Done, *, local: bool, in_turn: bool = False
    ) -> _Use:
        """The regions are the executor's: it reads and writes them."""
        return _Use(plan, done, local=local, in_turn=in_turn)

    def _infer_more(self, request: InferRequest) -> None:
        if self._link.unsent > UNSENT_LIMIT:
            self._refuse(request, Unavailable(_BUSY))
            return
        try:
            number = self._number(request)
            prefix, _ = frames.with_text(self._more(request))
        except (TypeError, ValueError):  # what JSON can not say, nobody can mean
            self._refuse(request, InvalidArgument("the request holds text that is no Unicode"))
            return
        if request.partial is not None and self._catalogue.decoupled(request.head):
            request.version = _DECOUPLED
        ticket = self._group.ticket(request)
        self._send(frames.INFER_MORE, number, (prefix, *request.data), ticket)

    def _refuse(self, request: InferRequest, fault: RuntimeFault) -> None:
        self.count_refused(fault.reason)
        request.done(request, fault)

    def _infer_sized(self, request: InferRequest, ticket: int) -> None:
        """One that was to go in a group, and whose tensors are not as long as the first with its head."""
        request.plan = None
        prefix, _ = frames.with_text(self._more(request))
        request.plan = ticket
        number = self._heads[request.head].number
        self._send(frames.INFER_MORE, number, (prefix, *request.data), ticket)

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
            self._send(frames.FORGET, 0, ())  # behind what is held and may still need them
            self._heads.clear()
        number = len(self._heads)
        sizes = tuple(map(len, request.data))
        protocol = getattr(request.context, "protocol", "")
        head = orjson.dumps(messages.request_head_value(request.head))
        self._send(frames.REQUEST_HEAD, number, frames.with_text([sizes, protocol], head))
        self._heads[request.head] = NamedHead(number, Layout(sizes))
        return number

    def _send(self, kind: int, number: int, body: tuple[Bytes, ...], ticket: int = 0) -> None:
        size = HEAD_SIZE + sum(map(len, body))
        self._link.send(pack_head(size, kind, 0, number, ticket, 0), body, size)

    # From the executor

    def received(self, message: Bytes) -> None:
        """All frames of a message. Raises BrokenRing."""
        at, end = 0, len(message)
        unpack, answers = frames.unpack_head, frames.ANSWERS
        while at < end:
            size, kind, flags, number, ticket, count = unpack(message, at)
            start, stop = at + HEAD_SIZE, at + size
            if size < HEAD_SIZE or stop > end:
                raise BrokenRing(f"a frame of {size} bytes")
            if kind == answers:
                known = self._answer_heads[number]
                self._answer(known, *read_answers(known.layout, message, start, stop, count))
            else:
                self._kinds[kind](message, start, stop, flags, number, ticket)
            at = stop

    def _answer(
        self, known: _AnswerHead, tickets: Sequence[int], rows: Sequence[Sequence[Bytes]]
    ) -> None:
        head, version, arm, pop = known.head, known.version, known.arm, self._requests.pop
        for ticket, data in zip(tickets, rows, strict=True):
            request = pop(ticket)
            request.version = version
            request.arm = arm
            request.done(request, InferResponse(head, data))

    def _answered(
        self, message: Bytes, start: int, stop: int, flags: int, number: int, ticket: int
    ) -> None:
        known = self._answer_heads[number]
        said, start = frames.read_text(message, start, stop)
        # JSON has no word for what is not finite.
        self._blocks = {kind: n for kind, n in said["blocks"].items() if n is not None}
        data = frames.cut(message, start, stop, tuple(said["sizes"]))
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
            Layout(value["sizes"]),
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

    def kv_cache_blocks(self) -> Mapping[str, float]:
        """As they were when the answer was sent that is being handed over now."""
        return self._blocks

    def model_config(self, name: str, version: str) -> pb.ModelConfig:
        return self._catalogue.config(name, version)

    def model_metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        return self._catalogue.metadata(name, version)
