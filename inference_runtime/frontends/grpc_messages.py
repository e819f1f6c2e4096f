"""gRPC's framing inside a stream: length-prefixed messages, put together and decompressed."""

from collections.abc import Sequence
from typing import Final

from inference_runtime.errors import FailureReason, RuntimeFault
from inference_runtime.frontends.h2_frames import pack_u32, unpack_u32
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.protocol import compression
from inference_runtime.protocol.error_codec import (
    GRPC_INTERNAL,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_UNIMPLEMENTED,
)
from inference_runtime.spec.messages import Bytes

PREFIX: Final = 5
ENCODINGS: Final = frozenset({"", "identity", "gzip", "deflate"})
# Decompressed at once up to here; what is larger would stop the loop for too long.
INFLATE_INLINE: Final = 16384
DEFLATE_INLINE: Final = 65536
_SMALL: Final = 1024


class CallFault(Exception):
    """Ends a call with this gRPC status."""

    def __init__(
        self, status: int, text: str, reason: FailureReason = FailureReason.CLIENT
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.reason = reason


class MessageReader:
    """Pieces of DATA in, whole messages out. Holds the budget for what is incomplete."""

    __slots__ = ("_budget", "_compressed", "_have", "_limit", "_need", "_pieces", "_taken", "count")

    def __init__(self, limit_bytes: int, budget: MemoryBudget) -> None:
        self._limit = limit_bytes
        self._budget = budget
        self._pieces: list[bytes | bytearray] = []
        self._have = 0
        self._need = PREFIX
        self._taken = 0
        self._compressed = False
        self.count = 0

    @property
    def incomplete(self) -> bool:
        return self._have > 0

    def feed(self, piece: bytes) -> list[tuple[bytes, bool]]:
        """The messages that are complete now, each with whether it is compressed."""
        if self._have + len(piece) < self._need:
            self._keep(piece)
            return []
        if self._pieces and self._have + len(piece) == self._need and len(self._pieces[0]) > PREFIX:
            # The usual end of a large message, which is put together without another copy of it.
            first = memoryview(self._pieces[0])[PREFIX:]
            message = b"".join((first, *self._pieces[1:], piece))
            self.release()
            self._need = PREFIX
            self.count += 1
            return [(message, self._compressed)]
        buffer = b"".join((*self._pieces, piece)) if self._pieces else piece
        self.release()
        messages: list[tuple[bytes, bool]] = []
        position = 0
        while True:
            size = self._size(buffer, position)
            if len(buffer) - position < PREFIX + size:
                break
            stop = position + PREFIX + size
            messages.append((buffer[position + PREFIX : stop], self._compressed))
            position = stop
        self.count += len(messages)
        self._need = PREFIX + size
        if position < len(buffer):
            self._keep(buffer[position:])
        return messages

    def release(self) -> None:
        """Forgets what is incomplete."""
        self._budget.give(self._taken)
        self._taken = self._have = 0
        self._pieces = []

    def _size(self, buffer: bytes, position: int) -> int:
        """Of the message that starts there; 0 while that is not known."""
        if len(buffer) - position < PREFIX:
            return 0
        flag = buffer[position]
        if flag > 1:
            raise CallFault(GRPC_INTERNAL, "a message has an unknown compression flag")
        self._compressed = flag == 1
        size: int = unpack_u32(buffer, position + 1)[0]
        if size > self._limit:
            raise CallFault(
                GRPC_RESOURCE_EXHAUSTED,
                f"Received message larger than max ({size} vs. {self._limit})",
            )
        return size

    def _keep(self, piece: bytes) -> None:
        try:
            self._budget.take(len(piece))
        except RuntimeFault as fault:
            raise CallFault(GRPC_RESOURCE_EXHAUSTED, fault.text, fault.reason) from fault
        self._taken += len(piece)
        self._have += len(piece)
        # Dribbled bytes are put together here, or each would weigh many times its size.
        if self._pieces and len(self._pieces[-1]) < _SMALL:
            self._pieces[-1] = bytearray(self._pieces[-1]) + piece
        else:
            self._pieces.append(piece)


def inflate(message: bytes, encoding: str, limit_bytes: int) -> bytes:
    if encoding in ("", "identity"):
        raise CallFault(GRPC_INTERNAL, "a message is compressed, but no grpc-encoding says how")
    try:
        return compression.inflate(message, limit_bytes)
    except compression.TooLarge:
        raise CallFault(
            GRPC_RESOURCE_EXHAUSTED, f"Decompressed message larger than max ({limit_bytes})"
        ) from None
    except RuntimeFault as fault:
        raise CallFault(GRPC_INTERNAL, fault.text) from fault


def unsupported_encoding(encoding: str) -> CallFault:
    return CallFault(
        GRPC_UNIMPLEMENTED,
        f"grpc-encoding '{encoding[:64]}' is not supported; use identity, deflate or gzip",
    )


def framed(parts: Sequence[Bytes], *, compressed: bool = False) -> list[Bytes]:
    """One message, its prefix put in front."""
    size = sum(map(len, parts))
    return [(b"\x01" if compressed else b"\x00") + pack_u32(size), *parts]
