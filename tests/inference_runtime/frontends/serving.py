"""Front ends on loopback, on uvloop in a thread of their own, with a fake core behind them."""

import asyncio
import concurrent.futures
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
import uvloop

from inference_runtime.frontends.grpc_server import GrpcOptions, serve_grpc
from inference_runtime.frontends.http_server import HttpOptions, serve_http
from inference_runtime.frontends.listener import Listener
from inference_runtime.frontends.metrics_server import serve_metrics
from tests.inference_runtime.frontends.fake_core import FakeCore

T = TypeVar("T")
DEADLINE_S = 20.0


class Served:
    """A running set of front ends; `call` and `run` reach into their loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, core: FakeCore) -> None:
        self.loop = loop
        self.core = core
        self.http: Listener
        self.grpc: Listener
        self.metrics: Listener

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self.http.port}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc.port}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def call(self, function: Callable[[], T]) -> T:
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done.result(DEADLINE_S)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        limit = time.monotonic() + DEADLINE_S
        while not self.call(holds):
            assert time.monotonic() < limit, "the condition did not come true"
            time.sleep(0.002)

    def connect_http(self) -> socket.socket:
        return _connect(self.http.port)

    def connect_grpc(self) -> socket.socket:
        return _connect(self.grpc.port)


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


@contextmanager
def serving(http: HttpOptions | None = None, grpc: GrpcOptions | None = None) -> Iterator[Served]:
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="front ends")
    thread.start()
    try:

        async def start() -> Served:
            served = Served(loop, FakeCore())
            served.http = await serve_http(served.core, host="127.0.0.1", port=0, options=http)
            served.grpc = await serve_grpc(served.core, host="127.0.0.1", port=0, options=grpc)
            served.metrics = await serve_metrics(served.core, host="127.0.0.1", port=0)
            return served

        async def stop(served: Served) -> None:
            for listener in (served.http, served.grpc, served.metrics):
                await listener.close(0.2)
            await loop.shutdown_default_executor()

        served = asyncio.run_coroutine_threadsafe(start(), loop).result(DEADLINE_S)
        try:
            yield served
        finally:
            served.run(stop(served))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()


def receive_all(sock: socket.socket) -> bytes:
    """Until the server closes."""
    parts = []
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def http_infer(model: str = "ident", elements: int = 4) -> bytes:
    """A whole request with one binary tensor of zeros."""
    entry = {"name": "INPUT0", "shape": [1, elements], "datatype": "FP32"}
    head = json.dumps(
        {"inputs": [{**entry, "parameters": {"binary_data_size": 4 * elements}}]}
    ).encode()
    start = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: h\r\n"
        f"Inference-Header-Content-Length: {len(head)}\r\nContent-Length: {len(head) + 4 * elements}\r\n\r\n"
    )
    return start.encode() + head + bytes(4 * elements)


def unary(channel: grpc.Channel, path: str) -> Any:
    """A call of bytes to bytes."""
    return channel.unary_unary(path)
