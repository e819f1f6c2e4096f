"""The head of an HTTP/1.1 request: what httptools makes of it, and what we refuse beyond that.

Where two readers could differ about where a request ends, the request is refused: that difference is
what request smuggling lives on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import httptools

_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
# A line end that is not CRLF, a folded line, a blank before a colon: legal to some readers only.
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]|\x00|\n[^:\r\n]*[ \t]:")
_HEADERS: Final = 128


class HeadFault(Exception):
    """The request can not be served and the connection with it."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class RequestHead1:
    """Shared by all requests with the same bytes up to the empty line.     `length` is -1 for a chunked body."""

    method: str
    path: str  # as it came, percent-encoding and all
    query: str
    headers: Mapping[str, str]  # names in lower case, repeated ones joined by ", "
    length: int
    keep_alive: bool
    old: bool  # HTTP/1.0: keep-alive must be said, 100-continue must not
    expects_continue: bool
    sent: tuple[tuple[str, str], ...] = ()  # the headers one by one, their names as they came


class _Collector:
    """httptools' callbacks."""

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.names: list[bytes] = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))
        self.names.append(name)

    def on_headers_complete(self) -> None:
        self.complete = True


def parse(raw: bytes) -> RequestHead1:
    """`raw` is everything up to and including the empty line. Raises HeadFault."""
    if _AMBIGUOUS.search(raw):
        raise _bad("malformed line end or header")
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        if parser.get_method() == b"CONNECT":
            raise _bad("there is nothing to connect to here") from None
        # An offer, which a server need not take; many HTTP/2 clients make it with their first request.
    except httptools.HttpParserError as error:
        raise _bad(str(error)) from error
    version = parser.get_http_version()
    if not collector.complete or version not in ("1.0", "1.1"):
        raise _bad("malformed head")
    if len(collector.fields) > _HEADERS:
        raise HeadFault(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
    path, query = _target(collector.url)
    headers = _joined(collector.fields)
    old = version == "1.0"
    hosts = sum(name == b"host" for name, _ in collector.fields)
    if hosts > 1 or not (hosts or old):
        raise _bad("not one Host header")
    return RequestHead1(
        method=parser.get_method().decode("ascii"),
        path=path,
        query=query,
        headers=headers,
        length=_length(collector.fields, old),
        keep_alive=_keeps_open(headers, old),
        old=old,
        expects_continue=not old and headers.get("expect", "").lower() == "100-continue",
        sent=tuple(
            (name.decode("latin-1"), _text(value))
            for name, (_, value) in zip(collector.names, collector.fields, strict=True)
        ),
    )


def _bad(text: str) -> HeadFault:
    return HeadFault(HTTPStatus.BAD_REQUEST, f"Bad Request: {text}")


def _target(url: bytes) -> tuple[str, str]:
    if not url.startswith(b"/"):
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError as error:
            raise _bad("malformed target") from error
        path, query = parsed.path or b"/", parsed.query or b""
    else:
        path, _, query = url.partition(b"#")[0].partition(b"?")
    return path.decode("latin-1"), query.decode("latin-1")


def _joined(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in fields:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _keeps_open(headers: Mapping[str, str], old: bool) -> bool:
    words = {word.strip() for word in headers.get("connection", "").lower().split(",")}
    return "close" not in words and (not old or "keep-alive" in words)


def _length(fields: list[tuple[bytes, bytes]], old: bool) -> int:
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if codings:
        if lengths or old:
            raise _bad("Transfer-Encoding with Content-Length")
        if [coding.strip().lower() for coding in codings] != [b"chunked"]:
            raise HeadFault(
                HTTPStatus.NOT_IMPLEMENTED, "only chunked is known as Transfer-Encoding"
            )
        return -1
    if not lengths:
        return 0
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise _bad("malformed Content-Length")
    return int(lengths[0])
