"""Answers of HTTP/1.1, written out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from inference_runtime.errors import RuntimeFault
from inference_runtime.protocol import error_codec

JSON: Final = b"application/json"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What a handler answers."""

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    headers: Headers = field(default=())

    def head(self) -> bytes:
        """Up to, and without, the empty line."""
        lines = [STATUS_LINES[self.status]]
        if self.body:
            lines.append(b"Content-Type: %b\r\n" % self.content_type)
        lines.extend(b"%b: %b\r\n" % header for header in self.headers)
        lines.append(b"Content-Length: %d\r\n" % len(self.body))
        return b"".join(lines)


def fault_reply(fault: RuntimeFault, headers: Headers = ()) -> HttpReply:
    return error_reply(error_codec.http_status(fault), fault.text, headers)


def error_reply(status: int, text: str, headers: Headers = ()) -> HttpReply:
    return HttpReply(error_codec.http_body(text), status, headers=headers)
