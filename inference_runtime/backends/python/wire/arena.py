"""Memory that one side writes tensors into and the other one reads them from, without a copy.

A sealed memfd: it has no name that could stay behind, it can not be truncated under a reader, and it
takes memory only where something was written. The writer allocates; the reader says which blocks
nothing refers to any more.
"""

import bisect
import contextlib
import fcntl
import mmap
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from inference_runtime.backends.python.wire.frames import Buffer

INLINE_LIMIT = 32 << 10  # a larger tensor goes into an arena; measured, see docs/backends.md
_PAYLOAD_LIMIT = 1 << 20  # all that is inline in one frame
_ALIGNMENT = 64
# So much may wait for something to be sent that it can go along with; then it is worth a frame of its own.
_MOST_WAITING_BLOCKS = 16
_MOST_WAITING_BYTES = 1 << 20
_PAGE = mmap.PAGESIZE

Place = int | list[int]  # so many bytes of the frame's payload; or offset and size in the arena
Array = np.ndarray[Any, Any]


class ArenaFull(Exception):
    def __init__(self, wanted: int, limit: int) -> None:
        super().__init__(f"{wanted} bytes wanted of {limit}")
        self.wanted = wanted
        self.limit = limit


class BadPlace(Exception):
    """The other side points at memory that is not there."""


def new_memory(name: str, size: int) -> int:
    """The descriptor of a sealed memfd; sparse until it is written."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(
            fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
    except BaseException:
        os.close(fd)
        raise
    return fd


class FreeList:
    """First fit over [0, size), neighbours joined. Not safe for threads."""

    def __init__(self, size: int) -> None:
        self._starts = [0]
        self._sizes = [size]
        self._used: dict[int, int] = {}

    @property
    def used(self) -> int:
        return sum(self._used.values())

    def take(self, size: int) -> int | None:
        size = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        for index, free in enumerate(self._sizes):
            if free >= size:
                start = self._starts[index]
                if free == size:
                    del self._starts[index], self._sizes[index]
                else:
                    self._starts[index] += size
                    self._sizes[index] -= size
                self._used[start] = size
                return start
        return None

    def give(self, start: int) -> None:
        """What nobody took is none of its business: the word comes from the other side."""
        size = self._used.pop(start, 0)
        if not size:
            return
        index = bisect.bisect_left(self._starts, start)
        if index < len(self._starts) and start + size == self._starts[index]:
            size += self._sizes[index]
            del self._starts[index], self._sizes[index]
        if index and self._starts[index - 1] + self._sizes[index - 1] == start:
            self._sizes[index - 1] += size
        else:
            self._starts.insert(index, start)
            self._sizes.insert(index, size)

    def gaps(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._sizes, strict=True))


class ArenaWriter:
    """Any thread."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        self._map = mmap.mmap(fd, size)
        self._free = FreeList(size)
        self._lock = threading.Lock()
        self._high = 0  # nothing was ever written behind this

    @property
    def used(self) -> int:
        with self._lock:
            return self._free.used

    def write(self, data: Buffer) -> list[int]:
        """Offset and size of a copy of `data`; raises ArenaFull."""
        size = len(data)
        with self._lock:
            start = self._free.take(size)
            if start is None:
                raise ArenaFull(size, self._size)
            self._high = max(self._high, start + size)
        self._map[start : start + size] = data
        return [start, size]

    def release(self, starts: Sequence[int]) -> None:
        with self._lock:
            for start in starts:
                self._free.give(start)

    def close(self) -> None:
        """Writing raises ValueError from here on."""
        with self._lock:
            self._map.close()

    def trim(self) -> None:
        """Gives the memory of what is free back to the system."""
        with self._lock:
            for start, size in self._free.gaps():
                first = -(-start // _PAGE) * _PAGE
                length = min(start + size, self._high) // _PAGE * _PAGE - first
                if length > 0:
                    self._map.madvise(mmap.MADV_REMOVE, first, length)
            if not self._free.used:
                self._high = 0


class _Lease:
    """Says, when the last reference to a block is gone, that it is."""

    __slots__ = ("_block", "_released")

    def __init__(self, block: tuple[int, int], released: "deque[tuple[int, int]]") -> None:
        self._block = block
        self._released = released

    def __del__(self) -> None:
        self._released.append(self._block)


class _Leased(np.ndarray[Any, Any]):
    """numpy keeps a subclass as the base of its views, so that the lease lives as long as any of them."""

    lease: _Lease


class ArenaReader:
    """Any thread. `released` collects what the writer is to be told."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        self._map: mmap.mmap | None = mmap.mmap(fd, size)
        self._released: deque[tuple[int, int]] = deque()  # start and size

    def view(self, place: Sequence[int]) -> Array:
        """Raises BadPlace. The array is writable: what one side does to it, the other does not look at."""
        start, size = place
        memory = self._map
        if memory is None or start < 0 or size < 0 or start + size > self._size:
            raise BadPlace(f"[{start}, {start + size}) of {self._size}")
        leased = _Leased((size,), np.uint8, memory, start)
        leased.lease = _Lease((start, size), self._released)
        return leased.view(np.ndarray)

    def close(self) -> None:
        """Views that are still looked at keep the memory for themselves; no new one is given."""
        kept, self._map, self._size = self._map, None, 0
        if kept is not None:
            with contextlib.suppress(BufferError):
                kept.close()

    @property
    def due(self) -> bool:
        """Whether the writer is to be told now."""
        released = self._released
        if len(released) >= _MOST_WAITING_BLOCKS:
            return True
        # A copy: other threads let go of blocks at any time.
        return bool(released) and sum(size for _, size in released.copy()) >= _MOST_WAITING_BYTES

    def take_released(self) -> list[int]:
        """Where the blocks start."""
        released = self._released
        return [released.popleft()[0] for _ in range(len(released))]


class Packer:
    """The tensors of one frame on their way out."""

    def __init__(self, arena: ArenaWriter) -> None:
        self.payload: list[Buffer] = []
        self.size = 0  # of all that was put
        self._arena = arena
        self._inline = 0
        self._placed: list[int] = []

    def put(self, data: Buffer) -> Place:
        """Raises ArenaFull."""
        size = len(data)
        self.size += size
        if size <= INLINE_LIMIT and self._inline + size <= _PAYLOAD_LIMIT:
            self._inline += size
            self.payload.append(data)
            return size
        place = self._arena.write(data)
        self._placed.append(place[0])
        return place

    def mark(self) -> tuple[int, int]:
        return len(self.payload), len(self._placed)

    def undo(self, mark: tuple[int, int]) -> None:
        """Takes back what was put since."""
        payload, placed = mark
        self._inline -= sum(map(len, self.payload[payload:]))
        del self.payload[payload:]
        self._arena.release(self._placed[placed:])
        del self._placed[placed:]


class Unpacker:
    """The tensors of one frame that came in, in the order in which they were put."""

    def __init__(self, payload: bytearray, arena: ArenaReader) -> None:
        self._payload = memoryview(payload)
        self._at = 0
        self._arena = arena

    def take(self, place: Place) -> memoryview:
        """Raises BadPlace. As long as the view lives, so does the block."""
        if isinstance(place, int):
            start, self._at = self._at, self._at + place
            if place < 0 or self._at > len(self._payload):
                raise BadPlace(f"{place} bytes more than the frame has")
            return self._payload[start : self._at]
        return self._arena.view(place).data
