"""Opening, draining and closing of front ends."""

import asyncio
import socket
from contextlib import closing

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from hyperframe.frame import GoAwayFrame, PingFrame

from inference_runtime.errors import Unavailable
from inference_runtime.frontends.grpc_server import GrpcOptions, serve_grpc
from inference_runtime.frontends.http_server import HttpOptions, serve_http
from inference_runtime.frontends.metrics_server import serve_metrics
from tests.hostile.wire.raw_h2 import RawH2, message
from tests.inference_runtime.frontends.fake_core import FakeCore
from tests.inference_runtime.frontends.serving import http_infer, receive_all, unary

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"
ZERO = np.zeros((1, 1), np.float32)


@pytest.mark.parametrize("serve", [serve_http, serve_grpc, serve_metrics])
async def test_a_port_in_use_is_told(serve):
    first = await serve(FakeCore(), host="127.0.0.1", port=0)
    with pytest.raises(Unavailable, match=rf"Socket '127.0.0.1:{first.port}' already in use"):
        await serve(FakeCore(), host="127.0.0.1", port=first.port)
    await first.close(0)


async def test_an_address_that_is_none_is_told():
    with pytest.raises(Unavailable, match=r"Socket 'no.such.host.invalid:0'"):
        await serve_http(FakeCore(), host="no.such.host.invalid", port=0)


async def test_a_port_may_be_shared_when_asked():
    first = await serve_http(
        FakeCore(), host="127.0.0.1", port=0, options=HttpOptions(reuse_port=True)
    )
    second = await serve_http(
        FakeCore(), host="127.0.0.1", port=first.port, options=HttpOptions(reuse_port=True)
    )
    assert first.port == second.port
    await first.close(0)
    await second.close(0)


async def test_closing_twice_is_fine():
    listener = await serve_grpc(FakeCore(), host="127.0.0.1", port=0, options=GrpcOptions())
    listener.stop_accepting()
    await listener.close(0)
    await listener.close(0)


def test_after_stop_accepting_open_connections_go_on_and_new_ones_are_refused(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(LIVE)
        assert sock.recv(4096).endswith(b"\r\n\r\n")
        served.call(served.http.stop_accepting)
        with pytest.raises(ConnectionRefusedError):
            served.connect_http()
        sock.sendall(LIVE)
        assert b"HTTP/1.1 200" in sock.recv(4096)


def finish_while_closing(served, listener, waiting):
    """Closes the listener while the core holds requests, then lets them go."""
    served.wait_until(lambda: len(served.core.waiting) == waiting)
    closer = asyncio.run_coroutine_threadsafe(listener.close(20), served.loop)
    served.wait_until(lambda: all(c.draining for c in listener.connections))
    served.call(served.core.release)
    closer.result(20)


def test_closing_waits_for_http_requests_under_way(served):
    idle, *busy = (served.connect_http() for _ in range(5))
    for sock in busy:
        sock.sendall(http_infer("held"))
    finish_while_closing(served, served.http, 4)
    for sock in busy:
        answer = receive_all(sock)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nConnection: close\r\n" in answer
    assert receive_all(idle) == b""
    for sock in (idle, *busy):
        sock.close()


def test_closing_waits_for_grpc_requests_under_way(served):
    with grpc_client.InferenceServerClient(served.grpc_address) as client:
        entry = grpc_client.InferInput("INPUT0", [1, 1], "FP32")
        entry.set_data_from_numpy(ZERO)
        found = []
        for _ in range(5):
            client.async_infer("held", [entry], lambda result, error: found.append((result, error)))
        served.wait_until(lambda: len(served.core.waiting) == 5)
        finish_while_closing(served, served.grpc, 5)
        served.wait_until(lambda: len(found) == 5)
        assert all(error is None for _, error in found)


def test_closing_cuts_off_what_takes_too_long(served):
    with closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        client.data(client.open(), message("held"))
        served.wait_until(lambda: len(served.core.waiting) == 1)
        served.run(served.grpc.close(0.1))
        receive_all(sock)
    assert len(served.core.cancelled) == 1


def test_a_draining_connection_says_goodbye_twice_and_serves_what_crossed_the_first(served):
    with closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        first = client.open()
        client.data(first, message("held"))
        served.wait_until(lambda: len(served.core.waiting) == 1)
        closer = asyncio.run_coroutine_threadsafe(served.grpc.close(20), served.loop)
        assert client.goaway() == 0
        assert [found.last_stream_id for found in client.all(GoAwayFrame)] == [2**31 - 1]
        assert client.call() == "0"  # it was under way before the client could know
        (ping,) = client.all(PingFrame)
        ping.flags.add("ACK")
        client.send(ping.serialize())
        client.until(lambda: client.count(GoAwayFrame) == 2)
        assert client.all(GoAwayFrame)[1].last_stream_id == 3
        assert client.call() == "reset 7"
        served.call(served.core.release)
        assert client.status(first) == "0"
        closer.result(20)


def test_a_draining_server_is_unavailable_to_grpc_clients(served):
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ServerLive")
        call(b"", timeout=20)
        served.run(served.grpc.close(5))
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_small_answers_are_sent_at_once(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(LIVE)
        sock.recv(4096)
        for connection in served.call(lambda: list(served.http.connections)):
            raw = connection.transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
