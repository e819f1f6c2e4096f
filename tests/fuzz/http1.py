"""A connection of HTTP/1.1 with the routes of the protocol behind it, fed with any bytes."""

import asyncio

from inference_runtime.errors import InvalidArgument
from inference_runtime.frontends.http1_application import HttpShared
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_reply import CONTINUE
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.http_admin import AdminHandlers
from inference_runtime.frontends.http_generate import GenerateService, generate_entries
from inference_runtime.frontends.http_infer import InferService
from inference_runtime.frontends.http_regions import RegionHandlers
from inference_runtime.frontends.http_routes import Entry, RouteTable, segments
from inference_runtime.frontends.http_server import handler_entries
from inference_runtime.frontends.http_settings import SettingsHandlers
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes, InferRequest, TensorHead
from inference_runtime.spec.tensors import BytesFramingError, count_bytes, element_count
from tests.fuzz import quiet_loop
from tests.inference_runtime.frontends.fake_core import FakeCore
from tests.inference_runtime.frontends.serving import http_infer
from tests.inference_runtime.frontends.test_http1_connection import Joins, Transport

_LIMIT = 4096  # of a body
_QUIET_TURNS = 6


class _StrictCore(FakeCore):
    """Refuses, as the core does, tensors that are not what their heads say."""

    def infer(self, request: InferRequest) -> None:
        for head, data in zip(request.head.inputs, request.data, strict=True):
            if not _fits(head, data):
                request.done(
                    request, InvalidArgument(f"input '{head.name}' does not fit its shape")
                )
                return
        super().infer(request)


def _fits(head: TensorHead, data: Bytes) -> bool:
    row, count = BY_WIRE.get(head.datatype), element_count(head.shape)
    if row is None or min(head.shape, default=0) < 0:
        return False
    if not row.item_size:
        try:
            return count_bytes(data, count) == count
        except BytesFramingError:
            return False
    return len(data) == count * row.item_size


class _World:
    """What the connections of one server share: known heads, remembered bodies, the budget."""

    def __init__(self) -> None:
        self.core = _StrictCore()
        self.budget = MemoryBudget(1 << 16)
        core = self.core
        infer = InferService(core, max_input_bytes=_LIMIT, max_body_bytes=2 * _LIMIT)
        handlers = (AdminHandlers, SettingsHandlers, RegionHandlers)
        entries = handler_entries([row for each in handlers for row in each(core).table()], _LIMIT)
        entries += [
            Entry(
                "POST",
                segments(f"/v2/models/{{m}}{version}/infer"),
                lambda head, given: infer.route(given["m"], given.get("v", ""), head),
            )
            for version in ("", "/versions/{v}")
        ]
        entries += generate_entries(GenerateService(core, dict, max_input_bytes=_LIMIT))
        self.shared = HttpShared(RouteTable(entries, {}), self.budget, HttpTimeouts())

    async def answers(self, text: bytes, size: int) -> bytes:
        """To the text as it comes in pieces of `size`."""
        joins = Joins()
        connection = Http1Connection(self.shared, joins)
        transport = Transport()
        connection.connection_made(transport)
        for start in range(0, len(text), size):
            connection.data_received(text[start : start + size])
        await _quiet(transport)
        self.core.release()
        await _quiet(transport)
        connection.connection_lost(None)
        self.core.release()
        assert self.budget.used_bytes == 0
        assert joins.here == set()
        return transport.out.replace(CONTINUE, b"")


async def _quiet(transport: Transport) -> None:
    turns, said = 0, 0
    while turns < _QUIET_TURNS:
        await asyncio.sleep(0)
        turns = turns + 1 if len(transport.out) == said else 0
        said = len(transport.out)


def http1(data: bytes) -> None:
    """Answers are the same in whatever pieces the bytes come, the first time and when heads are known."""
    size, text = 1 + (data[0] if data else 0), data[1:]

    async def run() -> None:
        known = _World()
        whole = await known.answers(text, max(len(text), 1))
        fresh = await _World().answers(text, size)
        assert fresh == whole, f"in pieces: {fresh!r}, at once: {whole!r}"
        again = await known.answers(text, max(len(text), 1))
        # What the first one has loaded or changed may be told to the second, so they say as much at least.
        assert bool(again) == bool(whole)

    quiet_loop.run(run)


def _request(method: str, path: str, body: bytes, *lines: str) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: h", *lines, "", ""]
    return "\r\n".join(head).encode() + body


def _post(path: str, body: bytes, *lines: str) -> bytes:
    return _request("POST", path, body, f"Content-Length: {len(body)}", *lines)


def _chunked(path: str, *chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))
    return _request("POST", path, body, "Transfer-Encoding: chunked")


SEEDS = (
    b"\x07" + http_infer(),
    # Found by the fuzzer: a tensor that is a byte short, which a core must refuse.
    b"\x07" + http_infer().replace(b'_size": 16', b'_size": 15').replace(b"125", b"124")[:-1],
    b"\x40" + http_infer("held") + http_infer("failing") + http_infer("nope"),
    b"\x10" + _request("GET", "/v2/health/live", b"") + _request("GET", "/v2/models/ident", b""),
    b"\x05" + _chunked("/v2/models/ident/generate", b'{"INPUT0":', b"[1,2]}"),
    b"\xff" + _post("/v2/models/ident_str/generate_stream", b'{"INPUT0":"x","id":"7"}'),
    b"\x20" + _post("/v2/repository/models/m/load", b'{"parameters":{"config":"{}"}}'),
    b"\x20" + _post("/v2/repository/index", b'{"ready":true}', "Connection: close"),
    b"\x20" + _post("/v2/systemsharedmemory/region/x/register", b'{"key":"/k","byte_size":8}'),
    b"\x03" + _post("/v2/trace/setting", b'{"trace_level":["TIMESTAMPS"],"trace_rate":"1"}'),
    b"\x20" + _post("/v2/logging", b'{"log_verbose_level":0}', "Expect: 100-continue"),
    b"\x20" + _post("/v2/models/ident/infer", b"x\x9c\x03\x00", "Content-Encoding: deflate"),
)
