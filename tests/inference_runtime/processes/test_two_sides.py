"""Both sides of a link in one loop: what the core is asked, and what comes back, is what it would be without."""

import asyncio
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    FailureReason,
    FaultCode,
    Internal,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    SingleAnswerOnly,
    Unavailable,
)
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.header_forwarding import HeaderPattern
from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.frontends.restrictions import RequiredHeader
from inference_runtime.frontends.tls import TlsFiles
from inference_runtime.processes import frames, intake, messages, remote_core
from inference_runtime.processes.calls import Calls, Handlers
from inference_runtime.processes.catalogue import CHANGES, Answers, Catalogue
from inference_runtime.processes.intake import HeadMemory, Intake
from inference_runtime.processes.link import Link, LinkFds
from inference_runtime.processes.options_text import (
    options_value,
    read_grpc_options,
    read_http_options,
)
from inference_runtime.processes.remote_core import RemoteCore
from inference_runtime.spec.messages import (
    InferRequest,
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.region_span import RegionPlan, RegionSpan
from inference_runtime.telemetry.logs import RuntimeLog
from tests.inference_runtime.frontends.fake_core import FakeCore, Version

PATIENCE_S = 20


class Sides:
    """`core` is the executor's, `remote` the front end's view of it."""

    def __init__(self, first_ticket: int) -> None:
        self.core = FakeCore()
        self.broken: list[Exception] = []
        self.unread = asyncio.Event()
        fds = LinkFds.make()
        copies = LinkFds(*map(os.dup, (fds.memory, fds.wake_executor, fds.wake_front_end)))
        self.theirs = Link(
            fds,
            executor=True,
            received=lambda m: self.intake.received(m),
            broken=self.broken.append,
        )
        self.ours = Link(
            copies,
            executor=False,
            received=lambda m: self.remote.received(m),
            broken=self.broken.append,
        )
        self.intake = Intake(
            self.core,
            self.theirs,
            HeadMemory(),
            call=Handlers(self.core).call,
            stuck=self.unread.set,
        )
        self.theirs.page[CHANGES] = 1
        asking, self._asked = socket.socketpair()
        self._asking = asking
        answers = Answers(self.core, lambda: {"simple": self.core.unit})
        self._asked.setblocking(False)
        asyncio.get_running_loop().add_reader(self._asked, self._answer, answers)
        self.catalogue = Catalogue(self.ours.page, asking, lost=pytest.fail)
        self.remote = RemoteCore(
            self.ours,
            self.catalogue,
            RuntimeLog(),
            propagates=False,
            first_ticket=first_ticket,
        )
        self.calls = Calls(self.ours)
        self.remote.handle(frames.REPLY, self.calls.replied)

    def _answer(self, answers: Answers) -> None:
        self._asked.send(answers.feed(self._asked.recv(65536)))

    def start(self) -> None:
        for link in (self.theirs, self.ours):
            link.start(asyncio.get_running_loop())

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._asked)
        for each in (self.theirs, self.ours, self._asked, self._asking):
            each.close()

    async def infer(self, head: RequestHead, *data: bytes, **more: Any) -> Any:
        """(request, its answers)"""
        request, answers, ended = self.submit(head, *data, **more)
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        return request, answers

    def submit(self, head: RequestHead, *data: bytes, **more: Any) -> Any:
        answers: list[Any] = []
        ended = asyncio.Event()

        def done(request: InferRequest, answer: Any) -> None:
            answers.append(answer)
            ended.set()

        request = InferRequest(head, data, done, None, monotonic_ns(), more.pop("id_", ""))
        for name, value in more.items():
            setattr(request, name, value)
        self.remote.infer(request)
        return request, answers, ended


@contextmanager
def sides(first_ticket: int = 1) -> Iterator[Sides]:
    both = Sides(first_ticket)
    both.start()
    try:
        yield both
    finally:
        both.close()


def head(model="ident", shape=(1, 4), **more: Any) -> RequestHead:
    return RequestHead(model, "", (TensorHead("INPUT0", "FP32", shape),), **more)


async def test_an_answer_and_its_version_come_back():
    with sides() as both:
        both.core.models["ident"].version = Version(7, {"OUTPUT0": ("zero", "one")})
        both.core.arm = "canary"
        for _ in range(3):
            request, (answer,) = await both.infer(head(), bytes(range(16)))
            assert list(answer.data) == [bytes(range(16))]
            assert answer.head.outputs[0].shape == (1, 4)
            assert (request.version.number_text, request.arm) == ("7", "canary")
            assert request.version.labels == {"OUTPUT0": ["zero", "one"]}
            assert request.version.config.batching
        assert both.broken == []


async def test_equal_heads_are_one_head_to_the_core_and_equal_answers_one_to_the_front_end():
    with sides() as both:
        heads = {(await both.infer(head(), bytes(16)))[1][0].head for _ in range(3)}
        assert len(heads) == 1
        assert len({request.head for request in both.core.seen}) == 1


async def test_everything_that_a_request_says_arrives():
    with sides() as both:
        said = head(parameters={"n": 2**70, "f": math.inf, "t": "ü", "b": True}, priority=3)
        due = monotonic_ns() + 10**9
        await both.infer(said, bytes(16), id_="häßlich", deadline_ns=due, traffic_unit="u")
        (seen,) = both.core.seen
        assert (seen.id, seen.deadline_ns, seen.traffic_unit) == ("häßlich", due, "u")
        assert seen.head.parameters == said.parameters
        assert seen.head.priority == 3
        assert seen.received_ns <= monotonic_ns()


@pytest.mark.parametrize("size", [0, 4, 16_380, 16_384, 70_000, 9_000_000])
async def test_tensors_of_any_size(size):
    with sides() as both:
        data = (bytes(range(251)) * (size // 251 + 1))[:size]
        for _ in range(2):
            _, (answer,) = await both.infer(head(shape=(1, size // 4)), data)
            assert bytes(answer.data[0]) == data


async def test_strings_whose_size_changes_under_one_head():
    with sides() as both:
        one = RequestHead("ident_str", "", (TensorHead("INPUT0", "BYTES", (1, 1)),))
        for text in (b"short", b"much longer than before", b""):
            data = len(text).to_bytes(4, "little") + text
            _, (answer,) = await both.infer(one, data)
            assert bytes(answer.data[0]) == data


async def test_several_tensors():
    with sides() as both:
        names = [TensorHead(f"INPUT{number}", "FP32", (1, 1 + number)) for number in range(3)]
        wanted = RequestHead("three", "", tuple(names))
        data = [bytes([number]) * 4 * (1 + number) for number in range(3)]
        for _ in range(2):
            _, (answer,) = await both.infer(wanted, *data)
            assert list(answer.data) == data


async def test_faults_keep_their_kind_and_say_that_they_were_refused():
    with sides() as both:
        request, (fault,) = await both.infer(head("nobody"), bytes(16))
        assert isinstance(fault, NotFound)
        assert "'nobody'" in fault.text
        assert fault.refused
        assert request.version is None


async def test_a_request_in_the_executor_can_be_cancelled():
    with sides() as both:
        request, answers, ended = both.submit(head("held"), bytes(16))
        await asyncio.wait_for(both.core.arrival.wait(), PATIENCE_S)
        both.remote.cancel(request)
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        assert isinstance(answers[0], Cancelled)
        assert not answers[0].refused
        assert len(both.core.cancelled) == 1
        assert (both.intake.inflight, both.remote.inflight) == (0, 0)


async def test_the_end_of_a_front_end_cancels_what_it_had_under_way():
    with sides() as both:
        _, answers, _ = both.submit(head("held"), bytes(16))
        await asyncio.wait_for(both.core.arrival.wait(), PATIENCE_S)
        both.intake.close()
        assert len(both.core.cancelled) == 1
        assert both.core.waiting == []
        assert answers == []


async def test_requests_of_one_turn_arrive_in_the_order_in_which_they_were_sent():
    with sides() as both:
        heads = [head(), head(shape=(1, 8)), head(priority=1)]
        pattern = [0, 0, 1, 0, 2, 2, 2, 1, 1, 0] * 40
        for _ in range(2):  # heads that are new, and heads that are known
            both.core.seen.clear()
            asked = [
                both.submit(heads[at], number.to_bytes(4, "little") * (8 if at == 1 else 4))
                for number, at in enumerate(pattern)
            ]
            for number, (_, answers, ended) in enumerate(asked):
                await asyncio.wait_for(ended.wait(), PATIENCE_S)
                assert len(answers) == 1
                assert bytes(answers[0].data[0][:4]) == number.to_bytes(4, "little")
            arrived = [int.from_bytes(request.data[0][:4], "little") for request in both.core.seen]
            assert arrived == list(range(len(pattern)))
        assert both.broken == []


async def test_strings_of_different_sizes_in_one_turn():
    with sides() as both:
        one = RequestHead("ident_str", "", (TensorHead("INPUT0", "BYTES", (1, 1)),))
        texts = [b"x" * (number % 7) for number in range(100)]
        for _ in range(2):
            data = [len(text).to_bytes(4, "little") + text for text in texts]
            asked = [both.submit(one, each) for each in data]
            for _, _, ended in asked:
                await asyncio.wait_for(ended.wait(), PATIENCE_S)
            assert [bytes(answers[0].data[0]) for _, answers, _ in asked] == data


async def test_a_request_is_cancelled_in_the_turn_in_which_it_is_sent():
    with sides() as both:
        await both.infer(head(), bytes(16))
        first, *others = [both.submit(head("held"), bytes(16)) for _ in range(3)]
        both.remote.cancel(first[0])
        await asyncio.wait_for(first[2].wait(), PATIENCE_S)
        assert isinstance(first[1][0], Cancelled)
        assert [answers for _, answers, _ in others] == [[], []]
        assert both.intake.inflight == 2


async def test_tickets_begin_anew_when_they_are_used_up():
    with sides(first_ticket=(1 << 32) - 10) as both:
        asked = [both.submit(head(), bytes([number]) * 16) for number in range(100)]
        for number, (_, answers, ended) in enumerate(asked):
            await asyncio.wait_for(ended.wait(), PATIENCE_S)
            assert bytes(answers[0].data[0]) == bytes([number]) * 16
        assert both.broken == []


async def test_more_heads_than_are_remembered(monkeypatch):
    monkeypatch.setattr(remote_core, "HEADS", 8)
    monkeypatch.setattr(intake, "HEADS", 8)
    monkeypatch.setattr(intake, "_ANSWER_HEADS", 8)
    with sides() as both:
        heads = [head(shape=(1, size)) for size in range(30)]
        for number in (*range(30), 3, 2, *range(30)):
            data = bytes([number]) * 4 * number
            _, (answer,) = await both.infer(heads[number], data)
            assert bytes(answer.data[0]) == data
        assert both.broken == []


async def test_all_of_many_at_once_are_answered_though_the_ring_is_full():
    with sides() as both:
        data = [os.urandom(300_000) for _ in range(60)]
        asked = [both.submit(head(shape=(1, 75_000)), each) for each in data]
        assert both.ours.unsent or both.remote.inflight == len(data)
        for _, _, ended in asked:
            await asyncio.wait_for(ended.wait(), PATIENCE_S)
        assert [bytes(answers[0].data[0]) for _, answers, _ in asked] == data
        assert both.ours.unsent == both.theirs.unsent == 0


async def test_a_front_end_that_is_not_taken_from_refuses(monkeypatch):
    monkeypatch.setattr(remote_core, "UNSENT_LIMIT", 1 << 20)
    with sides() as both:
        big = head(shape=(1, 500_000))
        asked = [both.submit(big, bytes(2_000_000)) for _ in range(10)]
        refused = [answers for _, answers, _ in asked if answers]
        assert refused
        assert all(isinstance(answers[0], Unavailable) for answers in refused)
        for _, _, ended in asked:
            await asyncio.wait_for(ended.wait(), PATIENCE_S)

        reason = Unavailable.reason
        both.remote.count_refused(reason)  # takes with it what could not be sent before
        await both.infer(head(), bytes(16))
        assert both.core.refused == [reason] * (len(refused) + 1)


async def test_what_a_front_end_refuses_itself_is_counted_by_the_executor():
    with sides() as both:
        both.remote.count_refused(FailureReason.CLIENT)
        both.remote.count_refused(FailureReason.REJECTED)
        _, (fault,), _ = both.submit(head(), bytes(16), id_="\ud800")
        assert isinstance(fault, InvalidArgument)
        await both.infer(head(), bytes(16))
        client, rejected = FailureReason.CLIENT, FailureReason.REJECTED
        assert both.core.refused == [client, rejected, client]


async def test_what_is_known_of_models_is_asked_again_after_a_change():
    with sides() as both:

        def ask() -> tuple[str, int]:
            unit = both.catalogue.unit_header("simple")
            return unit, both.catalogue.config("simple", "").max_batch_size

        assert await asyncio.to_thread(ask) == ("", 8)
        both.core.unit = "x-unit"
        both.core.models["simple"].max_batch_size = 4
        assert await asyncio.to_thread(ask) == ("", 8)
        both.theirs.page[CHANGES] = 2
        assert await asyncio.to_thread(ask) == ("x-unit", 4)
        with pytest.raises(NotFound, match="'nobody'"):
            await asyncio.to_thread(both.catalogue.config, "nobody", "")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"short",
        frames.pack_head(4, frames.INFER, 0, 0, 0, 0),
        frames.pack_head(1 << 30, frames.INFER, 0, 0, 0, 0),
        frames.pack_head(24, frames.INFER, 0, 77, 0, 0),
        frames.pack_head(24, frames.INFER, 0, 77, 0, 1 << 40),
        frames.pack_head(24, frames.INFER_MORE, 0, 77, 0, 0),
        frames.pack_head(24, frames.CALL, 0, 0, 0, 0),
        frames.pack_head(24, 99, 0, 0, 0, 0),
        frames.pack_head(28, frames.REQUEST_HEAD, 0, 0, 0, 0) + b"\xff\xff\xff\x7f",
    ],
)
async def test_nonsense_ends_the_link(nonsense):
    with sides() as both:
        both.ours.send(nonsense, (), len(nonsense))
        async with asyncio.timeout(PATIENCE_S):
            while not both.broken:
                await asyncio.sleep(0.001)
        assert len(both.broken) == 1


@pytest.mark.parametrize("count", [0, 2, 257, 1 << 62])
async def test_more_requests_than_a_frame_holds_end_the_link(count):
    with sides() as both:
        await both.infer(head(), bytes(16))  # head 0
        nonsense = frames.pack_head(24 + 8 + 16, frames.INFER, 0, 0, 9, count) + bytes(24)
        both.ours.send(nonsense, (), len(nonsense))
        async with asyncio.timeout(PATIENCE_S):
            while not both.broken:
                await asyncio.sleep(0.001)
        assert len(both.core.seen) == 1


async def test_calls_are_answered_by_the_handlers_of_the_executor():
    with sides() as both:
        which = ["http", "GET", "/v2/models/{m}", {"m": "simple"}, "", "127.0.0.1"]
        (status, kind, _), body = await both.calls.call(which, b"")
        assert (status, kind) == (200, "application/json")
        assert b'"name":"simple"' in body.replace(b" ", b"")
        with pytest.raises(NotFound):
            await both.calls.call(["http", "GET", "/v2/models/{m}", {"m": "x"}, "", ""], b"")
        with pytest.raises(Internal):
            await both.calls.call(["http", "GET", "/v2/no/such/row", {}, "", ""], b"")
        path = "/inference.GRPCInferenceService/ServerLive"
        _, answer = await both.calls.call(["grpc", path, "127.0.0.1"], b"")
        assert answer == b"\x08\x01"


names = st.text(max_size=8)
scalars = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), names)
parameters = st.dictionaries(names, scalars, max_size=3)
shapes = st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)
tensors = st.lists(st.builds(TensorHead, names, names, shapes), max_size=3).map(tuple)
spans = st.builds(RegionSpan, names, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def as_value(made: Any) -> Any:
    """Heads compare by identity; their fields do not."""
    if hasattr(made, "__dataclass_fields__"):
        return [as_value(getattr(made, name)) for name in made.__dataclass_fields__]
    if isinstance(made, tuple):
        return tuple(map(as_value, made))
    return made


@given(
    st.builds(
        RequestHead,
        names,
        names,
        tensors,
        st.lists(
            st.builds(RequestedOutput, names, st.integers(0, 9), st.booleans(), spans | st.none(), parameters),
            max_size=2,
        ).map(tuple),
        parameters,
        sequence_id=st.one_of(st.integers(0, 2**64 - 1), names),
        sequence_start=st.booleans(),
        sequence_end=st.booleans(),
        binary_default=st.booleans(),
        empty_final=st.booleans(),
    )
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_request_heads_survive(made):
    value = orjson.loads(orjson.dumps(messages.request_head_value(made)))
    assert as_value(messages.read_request_head(value)) == as_value(made)


@given(st.builds(ResponseHead, names, names, tensors, parameters, st.booleans()))
@settings(max_examples=60, deadline=None)
def test_response_heads_survive(made):
    value = orjson.loads(orjson.dumps(messages.response_head_value(made)))
    assert as_value(messages.read_response_head(value)) == as_value(made)


@given(
    st.dictionaries(st.integers(0, 9), spans, max_size=3),
    st.dictionaries(names, spans, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_region_plans_survive(inputs, outputs):
    plan = RegionPlan(inputs, outputs)
    value = orjson.loads(orjson.dumps(messages.region_plan_value(plan)))
    assert messages.read_region_plan(value) == plan


class _Own(Unavailable):
    """A fault that only the executor knows."""


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (DeadlineExceeded("late"), DeadlineExceeded),
        (SingleAnswerOnly("This"), SingleAnswerOnly),
        (RuntimeFault("plain", reason=FailureReason.TIMEOUT), RuntimeFault),
        (_Own("busy"), Unavailable),
    ],
)
def test_faults_survive(fault, kind):
    fault.code = FaultCode.DENIED  # as a model may have chosen it
    read = messages.read_fault(messages.fault_value(fault))
    assert (type(read), read.text, read.reason) == (kind, fault.text, fault.reason)
    assert read.code is FaultCode.DENIED


def test_the_options_of_front_ends_survive():
    pattern = HeaderPattern("^x-.*")
    restricted = {"health": RequiredHeader("key", "secret")}
    http = HttpOptions(max_input_bytes=5, restrictions=restricted, forwarded=pattern)
    read = read_http_options(orjson.loads(orjson.dumps(options_value(http))))
    assert options_value(read) == options_value(http)
    assert (read.restrictions, read.timeouts) == (restricted, http.timeouts)
    assert read.forwarded is not None
    assert read.forwarded.matches("X-Any")
    grpc = GrpcOptions(tls=TlsFiles("c", "k", mutual=True), restrictions=restricted)
    again = read_grpc_options(orjson.loads(orjson.dumps(options_value(grpc))))
    assert again == grpc
