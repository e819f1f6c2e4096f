"""What a caller is told when nobody answers, or somebody who is not a runtime."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.webapp.runtime_client.runtime_process import free_ports
from webapp.runtime_client.client import RuntimeClient
from webapp.runtime_client.errors import RuntimeProblem, RuntimeUnreachable


@pytest.fixture
def closed_client():
    ports = free_ports(2)
    client = RuntimeClient(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", 1.0)
    yield client
    client.close()


@pytest.fixture
def silent_client():
    """Accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        client = RuntimeClient(address, address, 0.3)
        yield client
        client.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.live(),
        lambda client: client.index(),
        lambda client: client.load("m"),
        lambda client: client.metrics_text(),
        lambda client: client.traffic_tables(),
    ],
    ids=["live", "index", "load", "metrics", "traffic"],
)
def test_a_closed_port_is_told_in_the_systems_words(closed_client, call):
    with pytest.raises(RuntimeUnreachable, match="Connection refused"):
        call(closed_client)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.live(),
        lambda client: client.load("m", timeout=0.3),
        lambda client: client.metrics_text(),
        lambda client: client.traffic_get("m"),
    ],
    ids=["live", "load", "metrics", "traffic"],
)
def test_a_silent_server_costs_the_time_limit_and_no_more(silent_client, call):
    started = time.monotonic()
    with pytest.raises(RuntimeUnreachable, match=r"did not answer (within 0.3 s|in time)"):
        call(silent_client)
    assert time.monotonic() - started < 2


def test_a_call_after_close_is_unreachable(closed_client):
    closed_client.close()
    with pytest.raises(RuntimeUnreachable):
        closed_client.live()


class _Stranger(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *args):
        pass


@pytest.fixture
def stranger_client():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"127.0.0.1:{server.server_port}"
        client = RuntimeClient(address, address, 1.0)
        yield client
        client.close()
        server.shutdown()
        thread.join()


def test_a_web_server_that_is_no_runtime_is_a_problem_and_not_a_crash(stranger_client):
    with pytest.raises(RuntimeProblem):
        stranger_client.switchyard_statistics()
    with pytest.raises(RuntimeProblem, match="does not speak gRPC"):
        stranger_client.live()
