"""Header blocks of requests: put together, decoded, checked, remembered."""

import re
from collections.abc import Callable
from typing import Final

from inference_runtime.frontends.h2_frames import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    PROTOCOL_ERROR,
    ConnectionFault,
)
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_stream import StreamHead
from inference_runtime.frontends.hpack import Field, HeaderDecoder, HpackFault

Describe = Callable[[list[Field] | None], StreamHead]

_BLOCKS: Final = 256
_BLOCK_SIZE: Final = 1024
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_CONNECTION_SPECIFIC: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)


def well_formed(fields: list[Field]) -> bool:
    """Whether the headers are a request as RFC 9113, section 8, wants it."""
    pseudo: set[bytes] = set()
    regular = False
    for name, value in fields:
        if _BAD_VALUE.search(value):
            return False
        if name.startswith(b":"):
            if regular or name in pseudo or name not in _PSEUDO:
                return False
            pseudo.add(name)
        else:
            regular = True
            if not _NAME.fullmatch(name) or _is_connection_specific(name, value):
                return False
    return {b":method", b":scheme", b":path"} <= pseudo and (b":path", b"") not in fields


def well_formed_trailers(fields: list[Field] | None) -> bool:
    """None: they are longer than headers may be."""
    return fields is not None and all(
        _NAME.fullmatch(name)
        and not _BAD_VALUE.search(value)
        and not _is_connection_specific(name, value)
        for name, value in fields
    )


def _is_connection_specific(name: bytes, value: bytes) -> bool:
    return name in _CONNECTION_SPECIFIC or (name == b"te" and value.lower() != b"trailers")


class HeaderBlocks:
    """One connection's incoming headers.

    `known` maps blocks to what they came to. It holds for as long as the dynamic table does not change;
    most clients send the same fully indexed block with every request.
    """

    __slots__ = (
        "_decoder",
        "_describe",
        "_limit",
        "_pieces",
        "_size",
        "ends_stream",
        "known",
        "open_stream",
    )

    def __init__(self, describe: Describe, limits: H2Limits) -> None:
        self._describe = describe
        self._decoder = HeaderDecoder(limits.header_list_size)
        self._limit = limits.header_block_size
        self._pieces: list[bytes] = []
        self._size = 0
        self.ends_stream = False
        self.open_stream = 0  # whose block waits for CONTINUATION; 0: none
        self.known: dict[bytes, StreamHead] = {}

    def begin(self, stream_id: int, piece: bytes, ends_stream: bool) -> None:
        self.open_stream = stream_id
        self.ends_stream = ends_stream
        self._pieces = [piece]
        self._size = len(piece)
        self._check()

    def add(self, stream_id: int, piece: bytes) -> None:
        if stream_id != self.open_stream:
            raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION without its HEADERS")
        self._pieces.append(piece)
        self._size += len(piece)
        self._check()

    def complete(self) -> bytes:
        self.open_stream = 0
        block = b"".join(self._pieces)
        self._pieces = []
        return block

    def head(self, block: bytes) -> StreamHead:
        """Of a request. This or `trailers` must be called for every block that arrives, in order."""
        known = self.known.get(block)
        if known is not None:
            return known
        before = self._decoder.changes
        head = self._describe(self._decoded(block))
        if self._decoder.changes != before or len(self.known) >= _BLOCKS:
            self.known.clear()
        elif len(block) <= _BLOCK_SIZE:
            self.known[block] = head
        return head

    def trailers(self, block: bytes) -> bool:
        """Whether they are what RFC 9113 wants; what they say means nothing to anybody."""
        before = self._decoder.changes
        fields = self._decoded(block)
        if self._decoder.changes != before:
            self.known.clear()
        return well_formed_trailers(fields)

    def _decoded(self, block: bytes) -> list[Field] | None:
        try:
            return self._decoder.decode(block)
        except HpackFault as fault:
            raise ConnectionFault(COMPRESSION_ERROR, str(fault)) from fault

    def _check(self) -> None:
        # Empty CONTINUATION frames cost time and no size, so pieces are counted as well.
        if self._size > self._limit or len(self._pieces) > 64:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "header block too large")
