"""What HTTP/1.1 clients may not do, over real sockets; the server must serve the next one."""

import random
import socket
import threading
from contextlib import closing

import pytest

from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.http_server import HttpOptions
from tests.inference_runtime.frontends.serving import http_infer, receive_all, serving

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n"


@pytest.fixture(autouse=True)
def survives(served):
    yield
    assert ask(served, LIVE + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    served.wait_until(lambda: not served.http.connections)


def ask(served, data):
    with closing(served.connect_http()) as sock:
        sock.sendall(data)
        return receive_all(sock)


SMUGGLED = LIVE + b"\r\n"
REFUSED = {
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "chunked and length": LIVE + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked hidden by a tab": LIVE + b"Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": LIVE + b"Content-Length: 0\r\nContent-Length: 50\r\n\r\n" + SMUGGLED,
    "blank before colon": LIVE + b"Content-Length : 50\r\n\r\n" + SMUGGLED,
    "folded": LIVE + b"X: y\r\n Content-Length: 50\r\n\r\n" + SMUGGLED,
    "bare line feeds": b"GET / HTTP/1.1\nHost: h\n\n" + b"\r\n\r\n" + SMUGGLED,
    "chunk size with blank": LIVE.replace(b"GET", b"POST")
    + b"Transfer-Encoding: chunked\r\n\r\n 5\r\nabcde\r\n0\r\n\r\n" + SMUGGLED,
    "long head": LIVE + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    "long line": b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_unclear_is_refused_and_nothing_behind_it_is_served(served, case):
    answer = ask(served, REFUSED[case])
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.split()[1] in (b"400", b"431", b"501")
    assert b"Connection: close" in answer


def test_a_body_that_looks_like_a_request_is_a_body(served):
    request = LIVE + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED)
    assert ask(served, request + SMUGGLED).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("seed", range(8))
def test_noise_harms_nobody(served, seed):
    source = random.Random(seed)
    good = http_infer()
    for _ in range(30):
        noise = bytearray(good)
        for _ in range(source.randint(1, 8)):
            noise[source.randrange(len(noise))] = source.randrange(256)
        with closing(served.connect_http()) as sock:
            sock.sendall(bytes(noise[: source.randint(1, len(noise))]))
    assert ask(served, good.replace(b"Host", b"Connection: close\r\nHost")).startswith(
        b"HTTP/1.1 200"
    )


def test_a_client_that_leaves_is_not_served_to_the_end(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(http_infer("held"))
        served.wait_until(lambda: len(served.core.waiting) == 1)
    served.wait_until(lambda: len(served.core.cancelled) == 1)


@pytest.mark.parametrize("count", [1, 3])
def test_a_client_that_only_closed_its_side_gets_its_answers(served, count):
    with closing(served.connect_http()) as sock:
        sock.sendall(http_infer("held") * count)
        served.wait_until(lambda: len(served.core.waiting) == 1)
        sock.shutdown(socket.SHUT_WR)
        answer = sock.recv(25, socket.MSG_WAITALL)
        assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"
        for _ in range(count):
            served.wait_until(lambda: len(served.core.waiting) == 1)
            served.call(served.core.release)
        answer += receive_all(sock)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == count
    last = answer.rpartition(b"HTTP/1.1 200 OK\r\n")[2]
    assert b"Connection: close\r\n" in last
    assert not served.core.cancelled


def test_a_client_that_closed_its_side_in_the_middle_of_a_request_gets_nothing(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(http_infer("held") + http_infer()[:-1])
        served.wait_until(lambda: len(served.core.waiting) == 1)
        sock.shutdown(socket.SHUT_WR)
        served.call(served.core.release)
        assert receive_all(sock).count(b"HTTP/1.1 200 OK\r\n") == 1
    served.wait_until(lambda: not served.http.connections)


def test_answers_to_clients_that_left_cost_nobody_else_theirs(served):
    served.core.cancel = served.core.cancelled.append  # a core that can not stop what runs
    sockets = [served.connect_http() for _ in range(6)]
    for sock in sockets:
        sock.sendall(http_infer("held"))
    served.wait_until(lambda: len(served.core.waiting) == 6)
    for sock in sockets[:3]:
        sock.close()
    served.wait_until(lambda: len(served.core.cancelled) == 3)
    served.call(served.core.release)
    for sock in sockets[3:]:
        assert sock.recv(12) == b"HTTP/1.1 200"
        sock.close()


def test_a_client_that_sends_bytes_one_by_one_is_served(served):
    with closing(served.connect_http()) as sock:
        for byte in http_infer():
            sock.sendall(bytes([byte]))
        assert sock.recv(12) == b"HTTP/1.1 200"


def test_a_client_that_reads_slowly_gets_everything_and_holds_up_nobody(served):
    with closing(served.connect_http()) as sock:
        sock.sendall(http_infer(elements=4 << 20))
        served.wait_until(lambda: any(c.paused for c in served.http.connections))
        assert ask(served, LIVE + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
        size = 0
        while size < 16 << 20:
            size += len(sock.recv(1 << 20))


def test_a_client_that_pipelines_without_reading_is_stopped(served):
    request = http_infer(elements=250_000)
    sent = [0]
    with closing(served.connect_http()) as sock:
        sock.settimeout(1)

        def push():
            try:
                while sent[0] < 200:
                    sock.sendall(request)
                    sent[0] += 1
            except OSError:
                pass

        pusher = threading.Thread(target=push)
        pusher.start()
        pusher.join()
    assert sent[0] < 100


def test_clients_that_stop_half_way_are_dropped_in_time():
    times = HttpTimeouts(head=1, body=1, idle=1, unread=1, closing=1)
    with serving(http=HttpOptions(timeouts=times)) as served:
        half_head, half_body, idle = (served.connect_http() for _ in range(3))
        half_head.sendall(LIVE[:10])
        half_body.sendall(http_infer()[:-4])
        for sock in (half_head, half_body):
            assert receive_all(sock).startswith(b"HTTP/1.1 408 ")
        assert receive_all(idle) == b""
        for sock in (half_head, half_body, idle):
            sock.close()


def test_connections_above_the_limit_are_closed():
    with serving(http=HttpOptions(max_connections=3)) as served:
        held = [served.connect_http() for _ in range(3)]
        served.wait_until(lambda: len(served.http.connections) == 3)
        with closing(served.connect_http()) as sock:
            assert receive_all(sock) == b""
        for sock in held:
            sock.close()
        served.wait_until(lambda: not served.http.connections)
        assert ask(served, LIVE + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
