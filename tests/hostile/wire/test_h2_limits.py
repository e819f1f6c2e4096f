"""What one peer may take: streams, headers, memory, attention."""

import itertools
import struct
from contextlib import closing

import hpack
import pytest
from hyperframe.frame import (
    DataFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from inference_runtime import pb
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from tests.hostile.wire.raw_h2 import PREFACE, STREAM, RawH2, frame, grpc_frame, message
from tests.inference_runtime.frontends.serving import receive_all, serving

FLOW, REFUSED, CALM, CANCEL, PROTOCOL = 3, 7, 11, 8, 1
HASTY = H2Timeouts(start=1, unread=2, window=2, upload=2, closing=1)
LIVELY = H2Timeouts(keepalive_time=1, keepalive_timeout=1)
TIGHT = GrpcOptions(
    limits=H2Limits(
        max_streams=4,
        stream_window=65536,
        connection_window=1 << 20,
        control_burst=100,
        control_rate=1,
        reset_burst=100,
        reset_rate=1,
    ),
    max_message_bytes=200_000,
    unfinished_bytes=300_000,
    max_connections=8,
)


@pytest.fixture
def tight():
    with serving(grpc=TIGHT) as served:
        yield served
        served.call(served.core.release)
        with closing(served.connect_grpc()) as sock:
            assert RawH2(sock).call() == "0"


@pytest.fixture
def client(tight):
    with closing(tight.connect_grpc()) as sock:
        yield RawH2(sock)


def flood(client, data, count=400):
    client.send(data * count)
    return client.goaway()


@pytest.mark.parametrize(
    "data",
    [
        PingFrame(0, opaque_data=b"12345678").serialize(),
        SettingsFrame(0).serialize(),
        SettingsFrame(0, settings={4: 65535}).serialize(),
        PriorityFrame(1, depends_on=0, stream_weight=1).serialize(),
        frame(99, 0, 0),
        frame(6, 1, 0, b"12345678"),
    ],
    ids=["ping", "empty settings", "settings", "priority", "unknown", "ping ack"],
)
def test_floods_of_control_frames_end_the_connection(client, data):
    assert flood(client, data) == CALM


def test_a_flood_of_empty_data_ends_the_connection(client):
    stream = client.open()
    assert flood(client, DataFrame(stream).serialize()) == CALM


def test_a_flood_of_requests_taken_back_ends_the_connection(client):
    data = b""
    for _ in range(300):
        stream = client.next_stream
        client.next_stream += 2
        block = client.encoder.encode(client.headers())
        data += frame(1, 4, stream, block) + RstStreamFrame(stream, error_code=CANCEL).serialize()
    client.send(data)
    assert client.goaway() == CALM


def test_a_flood_of_continuations_ends_the_connection(client):
    client.send(frame(1, 0, 1, b"") + frame(9, 0, 1, b"") * 200)
    assert client.goaway() == CALM


def test_a_header_block_without_end_ends_the_connection(client):
    block = hpack.Encoder().encode([("x", "y" * 60_000)], huffman=False)
    client.send(frame(1, 0, 1, block) + frame(9, 0, 1, b"a" * 60_000))
    assert client.goaway() == CALM


@pytest.mark.parametrize("how", ["plain", "bomb"])
def test_too_much_metadata_is_refused_and_the_next_call_served(client, how):
    if how == "plain":
        extra = [(f"x-{number}", "y" * 2000) for number in range(20)]
    else:
        extra = [
            ("x-bomb", "y" * 3000)
        ] * 5000  # one entry of the table, pointed at again and again
    stream = client.open(client.headers(extra=extra))
    client.data(stream)
    assert client.status(stream) == "8"
    assert client.call() == "0"


def test_streams_above_the_limit_are_refused_and_may_come_again(client, tight):
    held = [client.open() for _ in range(4)]
    for stream in held:
        client.data(stream, message("held"))
    assert client.call() == f"reset {REFUSED}"
    tight.wait_until(lambda: len(tight.core.waiting) == 4)
    tight.call(tight.core.release)
    for stream in held:
        assert client.status(stream) == "0"
    assert client.call() == "0"


def test_requests_that_still_run_count_though_their_streams_are_gone(client, tight):
    tight.core.cancel = tight.core.cancelled.append  # a core that can not stop what runs
    for _ in range(4):
        stream = client.open()
        client.data(stream, message("held"))
        client.send(RstStreamFrame(stream, error_code=CANCEL).serialize())
    assert client.call() == f"reset {REFUSED}"
    tight.call(tight.core.release)
    assert client.call() == "0"


def test_a_message_over_the_limit_ends_its_call(client):
    assert client.call(payload=b"\0" + struct.pack(">I", 200_001)) == "8"
    assert client.call() == "0"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_bomb_ends_its_call(client, encoding):
    import gzip
    import zlib

    pack = gzip.compress if encoding == "gzip" else zlib.compress
    fields = client.headers(extra=[("grpc-encoding", encoding)])
    assert client.call(fields, grpc_frame(pack(bytes(10 << 20)), flag=1)) == "8"
    assert client.call(fields, grpc_frame(b"plain", flag=1)) == "13"
    assert client.call(fields, grpc_frame(pack(message()[5:]), flag=1)) == "0"


def test_unfinished_requests_share_one_budget(client, tight):
    first, second = client.open(), client.open()
    for stream in (first, second):
        client.data(stream, b"\0" + struct.pack(">I", 190_000), end=False)
    piece = bytes(16384)
    sent = {first: 5, second: 5}
    answered: set[int] = set()
    while not answered and min(sent.values()) < 190_000:
        for stream in (first, second):
            # Only as much as the windows allow: the stream's is replenished as data is taken.
            client.data(stream, piece, end=False)
            sent[stream] += len(piece)
        client.ping()
        answered = {stream for stream in (first, second) if client.ended(stream)}
    assert len(answered) == 1
    assert client.status(answered.pop()) == "8"


def test_data_above_the_stream_window_resets_the_stream(client):
    stream = client.open(client.headers(STREAM))
    tiny = message("held")
    client.send(DataFrame(stream, data=(tiny * 20_000)[:65536]).serialize())
    client.send(DataFrame(stream, data=bytes(65536)).serialize())
    assert client.status(stream) in (f"reset {FLOW}", "13", "8")


def test_data_above_the_connection_window_ends_the_connection():
    limits = H2Limits(connection_window=65535, stream_window=1 << 20)
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock)
        stream = client.open()
        client.send(frame(0, 0, stream, bytes(65536)))
        assert client.goaway() == FLOW


def test_answers_wait_for_the_peers_windows(client):
    sock_windows = SettingsFrame(0, settings={4: 10}).serialize()
    client.send(sock_windows)
    stream = client.open()
    client.data(stream, message(elements=100))
    client.ping()
    assert len(client.body(stream)) == 10
    client.send(WindowUpdateFrame(stream, window_increment=7).serialize())
    client.ping()
    assert len(client.body(stream)) == 17
    client.send(WindowUpdateFrame(stream, window_increment=1000).serialize())
    assert client.status(stream) == "0"
    answer = pb.ModelInferResponse.FromString(client.body(stream)[5:])
    assert answer.raw_output_contents[0] == bytes(400)


def test_a_window_below_zero_is_filled_up_first(client):
    stream = client.open()
    client.data(stream, message("ident", elements=16_000)[:10], end=False)
    client.send(SettingsFrame(0, settings={4: 0}).serialize())
    client.send(DataFrame(stream, data=message(elements=16_000)[10:]).serialize())
    client.data(stream, b"")
    client.ping()
    assert client.body(stream) == b""
    client.send(SettingsFrame(0, settings={4: 200_000}).serialize())
    client.send(WindowUpdateFrame(0, window_increment=200_000).serialize())
    assert client.status(stream) == "0"
    assert (
        len(pb.ModelInferResponse.FromString(client.body(stream)[5:]).raw_output_contents[0])
        == 64_000
    )


def test_the_connection_window_is_shared_fairly(client):
    first, second = client.open(), client.open()
    client.send(SettingsFrame(0, settings={4: 1 << 20}).serialize())
    for stream in (first, second):
        text = message(elements=40_000)
        for start in range(0, len(text), 60_000):
            client.send(DataFrame(stream, data=text[start : start + 60_000]).serialize())
            client.ping()
        client.data(stream, b"")
    for _ in range(40):
        client.send(WindowUpdateFrame(0, window_increment=16_384).serialize())
        client.ping()
    assert client.status(first) == client.status(second) == "0"
    order = [f.stream_id for f in client.frames if isinstance(f, DataFrame) and f.data]
    turns = sum(one != other for one, other in itertools.pairwise(order))
    assert turns > 4, "one answer held up the other"


def test_frames_are_no_larger_than_the_peer_takes(client):
    client.send(SettingsFrame(0, settings={4: 1 << 20}).serialize())
    client.send(WindowUpdateFrame(0, window_increment=1 << 20).serialize())
    stream = client.open()
    text = message(elements=12_000)
    client.send(DataFrame(stream, data=text).serialize())
    client.data(stream, b"")
    assert client.status(stream) == "0"
    assert max(len(f.data) for f in client.of(stream) if isinstance(f, DataFrame)) <= 16_384


def test_a_peer_without_header_table_can_read_our_headers(tight):
    with closing(tight.connect_grpc()) as sock:
        client = RawH2(sock, settings={1: 0})
        client.decoder.max_allowed_table_size = 0
        assert client.call() == "0"
        assert client.call() == "0"


def test_a_stream_that_is_not_read_is_not_served_without_bound():
    limits = H2Limits(stream_window=65536, control_burst=10_000)
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock, settings={4: 0})
        stream = client.open(client.headers(STREAM))
        text = message(elements=4000)
        sent = 0
        for _ in range(2000):
            window = 65536 + sum(
                f.window_increment for f in client.of(stream) if isinstance(f, WindowUpdateFrame)
            )
            if sent + len(text) > window:
                break
            client.data(stream, text, end=False)
            sent += len(text)
            client.ping()
        assert sent < 20 << 20
        client.send(SettingsFrame(0, settings={4: 1 << 24}).serialize())
        client.send(WindowUpdateFrame(0, window_increment=1 << 30).serialize())
        client.data(stream, b"")
        assert client.status(stream) == "0"
        answers = client.body(stream)
        assert len(answers) > sent * 0.9


def test_a_peer_that_asks_without_reading_is_not_read_any_more():
    with serving() as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock, settings={4: 1 << 30})
        client.send(WindowUpdateFrame(0, window_increment=1 << 30).serialize())
        assert client.call() == "0"  # now the table knows the headers
        block = client.encoder.encode(client.headers())
        sock.settimeout(1)

        def pour():
            for start in range(1, 400_000, 500):
                requests = [
                    frame(1, 4, 2 * number + 1, block) + frame(0, 1, 2 * number + 1, message())
                    for number in range(start, start + 500)
                ]
                sock.sendall(b"".join(requests))

        with pytest.raises(TimeoutError):
            pour()
        (connection,) = served.call(lambda: list(served.grpc.connections))
        assert served.call(connection.transport.get_write_buffer_size) < 4 << 20


def test_answers_that_wait_are_bounded():
    limits = H2Limits(unsent=100_000)
    with serving(grpc=GrpcOptions(limits=limits)) as served, closing(served.connect_grpc()) as sock:
        client = RawH2(sock, settings={4: 0})
        for _ in range(3):
            client.data(client.open(), message(elements=10_000))
        assert client.call() == f"reset {REFUSED}"
        client.send(SettingsFrame(0, settings={4: 1 << 20}).serialize())
        client.send(WindowUpdateFrame(0, window_increment=1 << 20).serialize())
        assert client.status(5) == "0"
        assert client.call() == "0"


def test_a_flood_of_provoked_resets_ends_the_connection(client):
    assert client.call() == "0"  # now the table knows the headers
    block = client.encoder.encode(client.headers())
    client.send(
        b"".join(
            frame(1, 4, 2 * number + 1, block) + frame(8, 0, 2 * number + 1, b"\0\0\0\0")
            for number in range(1, 200)
        )
    )
    assert client.goaway() == CALM


def test_connections_above_the_limit_are_closed(tight):
    held = [tight.connect_grpc() for _ in range(8)]
    tight.wait_until(lambda: len(tight.grpc.connections) == 8)
    with closing(tight.connect_grpc()) as sock:
        assert receive_all(sock) == b""
    for sock in held:
        sock.close()
    tight.wait_until(lambda: len(tight.grpc.connections) == 0)


@pytest.fixture
def hasty():
    with serving(grpc=GrpcOptions(timeouts=HASTY)) as served:
        yield served


@pytest.fixture
def lively():
    with serving(grpc=GrpcOptions(timeouts=LIVELY)) as served:
        yield served


def test_a_peer_that_never_starts_is_dropped(hasty):
    with closing(hasty.connect_grpc()) as sock:
        sock.sendall(PREFACE[:10])
        receive_all(sock)


def test_a_header_block_that_never_ends_is_dropped(hasty):
    with closing(hasty.connect_grpc()) as sock:
        client = RawH2(sock)
        client.send(frame(1, 0, 1, b"\x82"))
        receive_all(sock)


def test_a_request_that_stops_half_way_is_reset(hasty):
    with closing(hasty.connect_grpc()) as sock:
        client = RawH2(sock)
        stream = client.open()
        client.data(stream, message()[:10], end=False)
        assert client.status(stream) == f"reset {CANCEL}"


def test_a_peer_whose_windows_stay_closed_is_dropped(hasty):
    with closing(hasty.connect_grpc()) as sock:
        client = RawH2(sock, settings={4: 0})
        client.data(client.open())
        receive_all(sock)


def test_a_silent_stream_of_many_requests_may_stay_while_pings_are_answered(lively):
    with closing(lively.connect_grpc()) as sock:
        client = RawH2(sock)
        stream = client.open(client.headers(STREAM))
        for pings in range(1, 4):
            client.until(lambda pings=pings: client.count(PingFrame) >= pings)
            client.send(PingFrame(0, opaque_data=b"keepaliv", flags=("ACK",)).serialize())
        client.data(stream)
        assert client.status(stream) == "0"


def test_a_peer_that_answers_no_ping_is_dropped(lively):
    with closing(lively.connect_grpc()) as sock:
        RawH2(sock)
        receive_all(sock)
