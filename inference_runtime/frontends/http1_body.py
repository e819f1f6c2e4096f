"""Bodies of HTTP/1.1 requests that did not arrive in one piece, or come in chunks."""

import enum
import re
from http import HTTPStatus
from typing import Final, Protocol

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends.http1_head import HeadFault
from inference_runtime.frontends.memory_budget import MemoryBudget

_CHUNKS: Final = 65536
_LINE: Final = 1024
_TRAILERS: Final = 8192
_SMALL: Final = 1024
_TOO_MANY: Final = (
    f"Chunked request body exceeds maximum of {_CHUNKS} non-empty chunks. "
    "Send fewer or larger HTTP chunks."
)
# A size in hexadecimal, and extensions, which are allowed and mean nothing here.
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\r\n\x00]*)?")


class Body(Protocol):
    """Takes the body's bytes. `feed` returns where the next request starts, or -1 while more is due."""

    def feed(self, data: bytes, position: int) -> int: ...
    def content(self) -> bytes: ...
    def release(self) -> None: ...


class _Pieces:
    """What has arrived, paid from the budget."""

    __slots__ = ("_budget", "_pieces", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        try:
            self._budget.take(len(piece))
        except RuntimeFault as fault:
            raise HeadFault(HTTPStatus.SERVICE_UNAVAILABLE, fault.text) from fault
        self.size += len(piece)
        # Dribbled bytes are put together here, or each would weigh many times its size.
        if self._pieces and len(self._pieces[-1]) < _SMALL:
            self._pieces[-1] = bytearray(self._pieces[-1]) + piece
        else:
            self._pieces.append(piece)

    def take(self) -> bytes:
        content = b"".join(self._pieces)
        self.release()
        return content

    def release(self) -> None:
        self._budget.give(self.size)
        self.size = 0
        self._pieces = []


class SizedBody:
    """Content-Length bytes."""

    __slots__ = ("_left", "_pieces")

    def __init__(self, length: int, budget: MemoryBudget) -> None:
        self._left = length
        self._pieces = _Pieces(budget)

    def feed(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._left]
        self._left -= len(piece)
        self._pieces.add(piece)
        return -1 if self._left else position + len(piece)

    def content(self) -> bytes:
        return self._pieces.take()

    def release(self) -> None:
        self._pieces.release()


class DiscardedBody:
    """Reads a refused body to its end, so that the client is there to hear why."""

    def __init__(self, length: int) -> None:
        self._left = length

    def feed(self, data: bytes, position: int) -> int:
        taken = min(self._left, len(data) - position)
        self._left -= taken
        return -1 if self._left else position + taken

    def content(self) -> bytes:
        return b""

    def release(self) -> None:
        """Nothing is held."""


class BodyTooLarge(Exception):
    """More than the route takes; `size` is what has come so far, or what was announced."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


class _Expect(enum.Enum):
    SIZE = 0
    DATA = 1  # and the line end behind it
    TRAILER = 2


class ChunkedBody:
    """Chunks, of which at most 65536 may carry data; trailers are read and dropped."""

    __slots__ = ("_chunks", "_expect", "_left", "_limit", "_line", "_pieces", "_trailers")

    def __init__(self, limit_bytes: int, budget: MemoryBudget) -> None:
        self._limit = limit_bytes
        self._pieces = _Pieces(budget)
        self._expect = _Expect.SIZE
        self._line = b""
        self._left = 0
        self._chunks = 0
        self._trailers = 0

    def feed(self, data: bytes, position: int) -> int:
        while True:
            if self._expect is _Expect.DATA:
                position = self._data(data, position)
                if self._left:
                    return -1
            line, position = self._read_line(data, position)
            if line is None:
                return -1
            if self._expect is _Expect.SIZE:
                self._size(line)
            elif self._expect is _Expect.DATA:
                if line:
                    raise _bad("a chunk does not end where it should")
                self._expect = _Expect.SIZE
            elif not line:
                return position
            else:
                self._trailer(line)

    def content(self) -> bytes:
        return self._pieces.take()

    def release(self) -> None:
        self._pieces.release()

    def _data(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._left]
        if piece:
            self._left -= len(piece)
            self._pieces.add(piece)
        return position + len(piece)

    def _size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise _bad("malformed chunk size")
        self._left = int(match[1], 16)
        if self._left == 0:
            self._expect = _Expect.TRAILER
            return
        self._expect = _Expect.DATA
        self._chunks += 1
        if self._chunks > _CHUNKS:
            raise HeadFault(HTTPStatus.BAD_REQUEST, _TOO_MANY)
        if self._pieces.size + self._left > self._limit:
            raise BodyTooLarge(self._pieces.size + self._left)

    def _trailer(self, line: bytes) -> None:
        self._trailers += len(line)
        if self._trailers > _TRAILERS or b"\r" in line or b":" not in line:
            raise _bad("malformed trailers")

    def _read_line(self, data: bytes, position: int) -> tuple[bytes | None, int]:
        end = data.find(b"\n", position)
        line = self._line + (data[position:] if end < 0 else data[position:end])
        if len(line) > _LINE:
            raise _bad("a chunk's line is too long")
        if end < 0:
            self._line = line
            return None, position
        self._line = b""
        if not line.endswith(b"\r"):
            raise _bad("a line of the chunked body does not end in CRLF")
        return line[:-1], end + 1


def _bad(text: str) -> HeadFault:
    return HeadFault(HTTPStatus.BAD_REQUEST, f"Bad Request: {text}")
