"""Any frames in any order: the connection answers, ends, or waits; it never breaks, and owes nothing after."""

import asyncio

import hpack
from hypothesis import given, settings, strategies as st

from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_head import CallHeads
from inference_runtime.frontends.grpc_methods import method_table
from inference_runtime.frontends.grpc_unary import RefusedMethod
from inference_runtime.frontends.h2_connection import H2Connection
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.memory_budget import MemoryBudget
from tests.hostile.wire.raw_h2 import INFER, PREFACE, STREAM, frame, message
from tests.inference_runtime.frontends.fake_core import FakeCore
from tests.inference_runtime.frontends.test_http1_connection import Joins, Transport


class Wire:
    def __init__(self):
        self.core = FakeCore()
        self.budget = MemoryBudget(1 << 20)
        context = GrpcContext(core=self.core, budget=self.budget, max_message_bytes=1 << 19)
        heads = CallHeads(method_table(context, self.core), RefusedMethod())
        self.joins = Joins()
        self.connection = H2Connection(heads.describe, H2Limits(), H2Timeouts(), self.joins)
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    def leave(self):
        self.connection.connection_lost(None)
        self.core.release()
        assert self.connection.orphans == 0
        assert self.connection.streams == {}
        assert self.budget.used_bytes == 0
        assert self.joins.here == set()


def block(path, *extra):
    fields = [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "h"),
        ("content-type", "application/grpc"), ("te", "trailers"), *extra,
    ]  # fmt: skip
    return hpack.Encoder().encode(fields)


BLOCKS = [
    block(INFER),
    block(STREAM),
    block(STREAM, ("triton_grpc_error", "true")),
    block("/nope"),
    block(INFER, ("grpc-timeout", "1S")),
    block(INFER, ("grpc-encoding", "gzip")),
    block(INFER)[:-3],
    b"",
    b"\x82\x86",
]
PAYLOADS = [
    b"", b"\x00", message(), message("held"), message("nope"), message() + message(), message()[:20],
    message("held") + message("failing", 1), b"\x01" + message()[1:], bytes(1000), b"\xff" * 50,
]  # fmt: skip
KINDS = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 10])
IDS = st.sampled_from([0, 1, 1, 3, 3, 5, 7, 2, 2**31 - 1])
FLAGS = st.sampled_from([0, 1, 4, 4, 5, 5, 8, 0x24, 0xD, 0xFF])
CONTENT = st.one_of(
    st.sampled_from(BLOCKS),
    st.sampled_from(PAYLOADS),
    st.binary(max_size=12),
    st.sampled_from(
        [b"\0\0\0\x08", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\x04\0\0\0\0", b"12345678"]
    ),
)
FRAMES = st.one_of(
    st.builds(frame, KINDS, FLAGS, IDS, CONTENT),
    # Likely to be right, so that runs get further.
    st.builds(frame, st.just(1), st.sampled_from([4, 4, 5]), IDS, st.sampled_from(BLOCKS[:6])),
    st.builds(frame, st.just(0), st.sampled_from([0, 1]), IDS, st.sampled_from(PAYLOADS)),
    st.builds(frame, st.just(3), st.just(0), IDS, st.just(b"\0\0\0\x08")),
    st.builds(
        frame,
        st.just(4),
        st.just(0),
        st.just(0),
        st.sampled_from([b"\0\x04\0\0\0\0", b"\0\x04\0\x01\0\0"]),
    ),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(FRAMES, max_size=25), st.integers(1, 60), st.booleans(), st.data())
def test_any_frames_in_any_order_leave_nothing_behind(frames, size, release, data):
    async def run():
        wire = Wire()
        text = PREFACE + frame(4, 0, 0) + b"".join(frames)
        for start in range(0, len(text), size * 7):
            wire.connection.data_received(text[start : start + size * 7])
            if data.draw(st.booleans()) and release:
                wire.core.release()
            wire.connection.watch(1.0)
        await asyncio.sleep(0)
        wire.leave()

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_leave_nothing_behind(text, size):
    async def run():
        wire = Wire()
        text_in = PREFACE + frame(4, 0, 0) + text
        for start in range(0, len(text_in), size):
            wire.connection.data_received(text_in[start : start + size])
        wire.leave()

    asyncio.run(run())
