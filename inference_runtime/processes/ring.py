"""Messages of any size through a ring in shared memory, from one process to one other.

A message that fits lies in one piece, else it goes through in several, so that a small ring, which
stays in the caches, carries large tensors too. A full ring takes nothing: its writer waits until its
reader says that there is room. Positions only grow; where they point to is their remainder.

    record │ size: 4 │ kind: 4 │ total: 8 │ bytes … to the next multiple of 16 │
"""

import struct
from collections.abc import Sequence
from typing import Final

Bytes = bytes | bytearray | memoryview

HEADER_SIZE: Final = (
    64  # of a ring: where it is written, where it is read, whether its writer waits
)
_WRITTEN, _READ, _WAITING = 0, 1, 2
_RECORD: Final = struct.Struct("<IIQ")
_RECORD_SIZE: Final = _RECORD.size
_pack_record: Final = _RECORD.pack_into
_unpack_record: Final = _RECORD.unpack_from
_WHOLE, _FIRST, _MORE, _GAP = 1, 2, 3, 4
_PADDING: Final = 15  # records begin at multiples of 16
# A message that is no larger goes through in one piece, as soon as there is room for all of it.
_WHOLE_SHARE: Final = 4
# When nobody reads, writing begins anew from here on: what is written before stays in the caches.
_NEAR: Final = 1 << 18


class BrokenRing(Exception):
    """What stands in the ring can not come from a writer of ours."""


class Message:
    """Parts that arrive as one run of bytes. Remembers how far it has got."""

    __slots__ = ("_index", "_offset", "_parts", "left", "size")

    def __init__(self, parts: Sequence[Bytes]) -> None:
        self._parts = parts
        self._index = 0
        self._offset = 0
        self.size = self.left = sum(map(len, parts))

    def copy(self, target: memoryview) -> None:
        """The next bytes, as many as `target` has."""
        at, end = 0, len(target)
        while at < end:
            part = self._parts[self._index]
            count = min(len(part) - self._offset, end - at)
            target[at : at + count] = memoryview(part)[self._offset : self._offset + count]
            at += count
            self._offset += count
            if self._offset == len(part):
                self._index += 1
                self._offset = 0
        self.left -= end


class RingWriter:
    def __init__(self, memory: memoryview) -> None:
        """`memory`: the ring's header and behind it a multiple of 64 bytes."""
        self._marks = memory[:HEADER_SIZE].cast("Q")
        self._room = memory[HEADER_SIZE:]
        self._size = len(self._room)
        self._whole = self._size // _WHOLE_SHARE
        self._written: int = self._marks[_WRITTEN]

    def put(self, data: bytes) -> bool:
        """A small message in one step, the usual case; False: it has to go by `write`."""
        count = len(data)
        written = self._written
        read: int = self._marks[_READ]
        at = written % self._size
        start = at + _RECORD_SIZE
        needed = _RECORD_SIZE + (count + _PADDING & ~_PADDING)
        if (
            count > self._whole
            or at + needed > self._size
            or written + needed - read > self._size
            or (at > _NEAR and read == written)
        ):
            return False
        _pack_record(self._room, at, count, _WHOLE, count)
        self._room[start : start + count] = data
        self._written = self._marks[_WRITTEN] = written + needed
        return True

    def write(self, message: Message) -> bool:
        """All of it, or what there is room for; False: call again when the reader has made some."""
        if message.left == message.size and message.size <= self._whole:
            return self._put(message, _WHOLE, message.size)
        while message.left:
            kind = _FIRST if message.left == message.size else _MORE
            if not self._put(message, kind, min(message.left, self._whole)):
                return False
        return True

    def release(self) -> None:
        """The memory is no more; neither may this be."""
        self._marks.release()
        self._room.release()

    def ask_for_room(self) -> None:
        """Before the reader is woken: it will see this, and wake us when it has read."""
        self._marks[_WAITING] = 1

    def _put(self, message: Message, kind: int, count: int) -> bool:
        read: int = self._marks[_READ]
        written = self._written
        needed = _RECORD_SIZE + (count + _PADDING & ~_PADDING)
        at = written % self._size
        gap = 0
        if read == written and at > _NEAR:
            gap = self._size - at  # nobody reads: the start of the ring is in the caches
        elif at + needed > self._size:
            gap = self._size - at
        if written + gap + needed - read > self._size:
            if at + needed > self._size or written + needed - read > self._size:
                return False
            gap = 0
        if gap:
            _pack_record(self._room, at, gap, _GAP, 0)
            written += gap
            at = 0
        _pack_record(self._room, at, count, kind, message.size)
        start = at + _RECORD_SIZE
        message.copy(self._room[start : start + count])
        self._written = written + needed
        # Last: from now on the reader may look at it.
        self._marks[_WRITTEN] = self._written
        return True


class RingReader:
    """`limit`: bytes of the largest message that is believed."""

    def __init__(self, memory: memoryview, *, limit: int) -> None:
        self._marks = memory[:HEADER_SIZE].cast("Q")
        self._room = memory[HEADER_SIZE:]
        self._size = len(self._room)
        self._limit = limit
        self._read: int = self._marks[_READ]
        self._pieces: memoryview | None = None  # of a message that comes in several
        self._filled = 0

    def read(self) -> Bytes | None:
        """The next message, copied out of the ring; None: there is none yet. Raises BrokenRing."""
        written: int = self._marks[_WRITTEN]
        while self._read != written:
            at = self._read % self._size
            size, kind, total = _unpack_record(self._room, at)
            if kind == _GAP:
                self._step(size, written)
                continue
            start = at + _RECORD_SIZE
            stop = start + size
            step = _RECORD_SIZE + (size + _PADDING & ~_PADDING)
            if stop > self._size or step > written - self._read:
                raise BrokenRing(
                    f"a record of {size} bytes at {at}, {written - self._read} written"
                )
            if kind == _WHOLE:
                message = self._room[start:stop].tobytes()
                self._read = self._marks[_READ] = self._read + step
                return message
            whole = self._collect(self._room[start:stop], kind, total)
            self._step(step, written)
            if whole is not None:
                return whole
        return None

    def release(self) -> None:
        """The memory is no more; neither may this be."""
        self._marks.release()
        self._room.release()

    def room_is_asked_for(self) -> bool:
        """Asked after reading: the writer waits, and is to be woken."""
        if not self._marks[_WAITING]:
            return False
        self._marks[_WAITING] = 0
        return True

    def _collect(self, piece: memoryview, kind: int, total: int) -> memoryview | None:
        if kind == _FIRST and self._pieces is None and total <= self._limit:
            self._pieces, self._filled = memoryview(bytearray(total)), 0
        elif kind != _MORE or self._pieces is None:
            raise BrokenRing(f"a record of kind {kind}, total {total}")
        end = self._filled + len(piece)
        if end > len(self._pieces):
            raise BrokenRing("a message longer than it said")
        self._pieces[self._filled : end] = piece
        self._filled = end
        if end < len(self._pieces):
            return None
        message, self._pieces = self._pieces, None
        return message.toreadonly()

    def _step(self, size: int, written: int) -> None:
        if not 0 < size <= written - self._read:
            raise BrokenRing(f"a record of {size} bytes where {written - self._read} are written")
        self._read += size
        self._marks[_READ] = self._read
