import httptools
import pytest
from hypothesis import given, strategies as st

from inference_runtime.frontends.http1_head import HeadFault, parse


def head(*lines, start="POST /v2/models/m/infer HTTP/1.1"):
    return "\r\n".join([start, "Host: h", *lines, "", ""]).encode("latin-1")


def test_reads_what_is_there():
    read = parse(head("Content-Length: 5", "X-A: 1", "x-a: 2", start="POST /a%20b?c=d HTTP/1.1"))
    assert (read.method, read.path, read.query, read.length) == ("POST", "/a%20b", "c=d", 5)
    assert read.headers["x-a"] == "1, 2"
    assert read.keep_alive
    assert not read.old


def test_without_length_there_is_no_body():
    assert parse(head()).length == 0


def test_a_chunked_body_has_no_length():
    assert parse(head("Transfer-Encoding: Chunked")).length == -1


@pytest.mark.parametrize(
    ("start", "lines", "keeps"),
    [
        ("GET / HTTP/1.1", [], True),
        ("GET / HTTP/1.1", ["Connection: close"], False),
        ("GET / HTTP/1.0", [], False),
        ("GET / HTTP/1.0", ["Connection: keep-alive"], True),
    ],
)
def test_the_connection_stays_open_when_both_want_it(start, lines, keeps):
    assert parse(head(*lines, start=start)).keep_alive is keeps


def test_an_absolute_target_is_its_path():
    assert parse(head(start="GET http://h:1/v2?x=1 HTTP/1.1")).path == "/v2"


def test_continue_is_asked_for_by_new_clients_only():
    assert parse(head("Expect: 100-Continue")).expects_continue
    assert not parse(head("Expect: 100-continue", start="POST / HTTP/1.0")).expects_continue


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_offer_to_change_the_protocol_is_not_taken(protocol):
    offer = (f"Upgrade: {protocol}", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMA")
    read = parse(head(*offer, "Content-Length: 5", start="POST /v2 HTTP/1.1"))
    assert (read.method, read.path, read.length, read.keep_alive) == ("POST", "/v2", 5, True)


AMBIGUOUS = {
    "length and chunked": head("Content-Length: 5", "Transfer-Encoding: chunked"),
    "chunked and length": head("Transfer-Encoding: chunked", "Content-Length: 5"),
    "two lengths": head("Content-Length: 5", "Content-Length: 5"),
    "different lengths": head("Content-Length: 5", "Content-Length: 6"),
    "list of lengths": head("Content-Length: 5, 5"),
    "signed length": head("Content-Length: +5"),
    "negative length": head("Content-Length: -5"),
    "hexadecimal length": head("Content-Length: 0x5"),
    "empty length": head("Content-Length:"),
    "huge length": head("Content-Length: 99999999999999999999999"),
    "chunked twice": head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "gzip, chunked": head("Transfer-Encoding: gzip, chunked"),
    "chunked, gzip": head("Transfer-Encoding: chunked, gzip"),
    "unknown coding": head("Transfer-Encoding: xchunked"),
    "vertical tab": head("Transfer-Encoding: \x0bchunked"),
    "old and chunked": head("Transfer-Encoding: chunked", start="POST / HTTP/1.0"),
    "folded line": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    "bare line feed": b"GET / HTTP/1.1\r\nHost: h\nX: a\r\n\r\n",
    "bare return": b"GET / HTTP/1.1\r\nHost: h\rX: a\r\n\r\n",
    "blank before colon": head("Content-Length : 5"),
    "no name": head(": 5"),
    "no colon": head("Content-Length"),
    "null": head("X: a\x00b"),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": head("Host: other"),
    "no version": b"GET /\r\nHost: h\r\n\r\n",
    "version 2": head(start="GET / HTTP/2.0"),
    "version 1.2": head(start="GET / HTTP/1.2"),
    "unknown method": head(start="FOO / HTTP/1.1"),
    "blanks in the target": head(start="GET /a b HTTP/1.1"),
    "tunnel": head(start="CONNECT h:1 HTTP/1.1"),
    "too many headers": head(*(f"X-{number}: 1" for number in range(200))),
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\n",
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_two_readers_could_read_differently_is_refused(case):
    with pytest.raises(HeadFault):
        parse(AMBIGUOUS[case])


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    b"\r\n",
                    b"\n",
                    b"\r",
                    b" ",
                    b"\t",
                    b":",
                    b"Content-Length: 3",
                    b"Host: h",
                    b"\x00",
                ]
            ),
            st.sampled_from([b"Transfer-Encoding: chunked", b"GET / HTTP/1.1", b"a: b", b"\xff"]),
        ),
        max_size=12,
    )
)
def test_any_bytes_are_refused_or_read_as_llhttp_reads_them(pieces):
    raw = b"POST /x HTTP/1.1\r\n" + b"".join(pieces) + b"\r\n\r\n"
    raw = raw[: raw.index(b"\r\n\r\n") + 4]
    try:
        read = parse(raw)
    except HeadFault:
        return

    class Seen:
        fields: list[tuple[str, str]] = []

        def on_header(self, name, value):
            self.fields = [*self.fields, (name.lower().decode("latin-1"), value.decode("latin-1"))]

    seen = Seen()
    httptools.HttpRequestParser(seen).feed_data(raw)
    assert set(read.headers) == {name for name, _ in seen.fields}
    lengths = [value for name, value in seen.fields if name == "content-length"]
    assert read.length == (-1 if "transfer-encoding" in read.headers else int([*lengths, "0"][0]))
