"""Keep-alive in both directions, and connections that are closed for their age."""

import ssl
from contextlib import closing
from dataclasses import replace

import pytest
import trustme
from hyperframe.frame import GoAwayFrame, PingFrame

from inference_runtime.cli import parse
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.tls import TlsFiles
from tests.hostile.wire.raw_h2 import STREAM, RawH2
from tests.inference_runtime.frontends.serving import receive_all, serving

CALM = 11
STRICT = H2Limits(ping_strikes=2, ping_interval=300)


def pinged(client, times):
    """How many of so many pings were answered."""
    for _ in range(times):
        client.ping()
    return client.count(PingFrame)


def test_pings_that_come_too_soon_end_the_connection():
    with serving(grpc=GrpcOptions(limits=STRICT)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        assert pinged(client, 5) == 3
        assert client.goaway() == CALM
        (goaway,) = client.all(GoAwayFrame)
        assert goaway.additional_data == b"too_many_pings"


def test_pings_between_answers_are_welcome():
    with serving(grpc=GrpcOptions(limits=STRICT)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        for _ in range(10):
            assert client.call() == "0"
            client.ping()
        assert client.alive()


def test_pings_after_the_interval_are_welcome_where_idle_ones_are_permitted():
    limits = replace(STRICT, ping_interval=0, ping_without_calls=True)
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        assert pinged(RawH2(sock), 10) == 10
    limits = replace(limits, ping_without_calls=False)
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        client.open(client.headers(STREAM))  # a call is open
        assert pinged(client, 10) == 10
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        assert pinged(RawH2(sock), 10) == 3


def test_idle_connections_are_not_pinged_unless_permitted():
    timeouts = H2Timeouts(keepalive_time=1, keepalive_timeout=1, keepalive_without_calls=False)
    with (
        serving(grpc=GrpcOptions(timeouts=timeouts)) as served,
        closing(served.connect_grpc()) as idle,
        closing(served.connect_grpc()) as busy,
    ):
        quiet, client = RawH2(idle), RawH2(busy)
        client.open(client.headers(STREAM))
        client.until(lambda: client.count(PingFrame))
        receive_all(busy)  # … and is dropped, because it does not answer
        assert quiet.call() == "0"
        assert quiet.count(PingFrame) == 0


def test_only_so_many_pings_go_out_in_a_row():
    timeouts = H2Timeouts(keepalive_time=1, keepalive_timeout=30, keepalive_pings=1)
    with (
        serving(grpc=GrpcOptions(timeouts=timeouts)) as served,
        closing(served.connect_grpc()) as first,
        closing(served.connect_grpc()) as second,
    ):
        client, other = RawH2(first), RawH2(second)
        stream = client.open(client.headers(STREAM))
        client.until(lambda: client.count(PingFrame) == 1)
        client.send(PingFrame(0, opaque_data=b"keepaliv", flags=("ACK",)).serialize())
        for _ in range(3):  # as long as three more would have taken
            other.until(lambda: other.count(PingFrame))
            other.frames.clear()
            other.send(PingFrame(0, opaque_data=b"keepaliv", flags=("ACK",)).serialize())
            assert other.call() == "0"
        client.data(stream)
        assert client.status(stream) == "0"
        assert client.count(PingFrame) == 1


def test_an_old_connection_takes_no_more_calls_and_ends_after_its_grace():
    timeouts = H2Timeouts(age=1, age_grace=1)
    with serving(grpc=GrpcOptions(timeouts=timeouts)) as served:
        with closing(served.connect_grpc()) as sock:
            client = RawH2(sock)
            client.open(client.headers(STREAM))
            assert client.goaway() == 0
            receive_all(sock)
        with closing(served.connect_grpc()) as sock:
            assert RawH2(sock).call() == "0"


def test_the_command_line_has_grpcs_defaults():
    options = parse(["--model-repository=/m"])[0].grpc_options
    assert (options.limits.ping_strikes, options.limits.ping_interval) == (2, 300)
    assert not options.limits.ping_without_calls
    timeouts = options.timeouts
    assert (timeouts.keepalive_time, timeouts.keepalive_timeout) == (7200, 20)
    assert (timeouts.keepalive_pings, timeouts.keepalive_without_calls) == (2, False)
    assert (timeouts.age, timeouts.age_grace) == (0, 0)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def test_a_peer_that_breaks_the_protocol_inside_tls_is_told_so(authority, tmp_path):
    certificate = authority.issue_cert("127.0.0.1")
    file = str(tmp_path / "server.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2"])
    options = GrpcOptions(tls=TlsFiles(file, file))
    with (
        serving(grpc=options) as served,
        closing(served.connect_grpc()) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        assert sock.selected_alpn_protocol() == "h2"
        client = RawH2(sock)
        assert client.call() == "0"
        client.send(bytes([0, 0, 1, 6, 0, 0, 0, 0, 0, 0]))  # a ping of one byte
        assert client.goaway() == 6
        receive_all(sock)
