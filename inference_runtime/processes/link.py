"""Two rings and two wake-ups: frames from one event loop to another, sent together once a turn."""

import asyncio
import contextlib
import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from inference_runtime.processes.ring import (
    HEADER_SIZE,
    Bytes,
    Message,
    RingReader,
    RingWriter,
)

_PAGE: Final = 4096
RING_SIZE: Final = 4 << 20
MEMORY_SIZE: Final = _PAGE + 2 * (HEADER_SIZE + RING_SIZE)
# No request or answer is larger than what HTTP/2 and our own limits let in; one turn's may lie together.
_MESSAGE_LIMIT: Final = 1 << 34
# From here on a frame is not joined with others before it is copied.
_ALONE: Final = 65536
_PER_WAKE: Final = 16  # messages, before others have their turn


@dataclass(frozen=True, slots=True)
class LinkFds:
    """What both sides of a link hold. The side of the executor is made first, the other is its mirror."""

    memory: int
    wake_executor: int
    wake_front_end: int

    @staticmethod
    def make() -> "LinkFds":
        memory = os.memfd_create("switchyard-front-end", os.MFD_CLOEXEC)
        os.ftruncate(memory, MEMORY_SIZE)
        flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
        return LinkFds(memory, os.eventfd(0, flags), os.eventfd(0, flags))

    def close(self) -> None:
        for fd in (self.memory, self.wake_executor, self.wake_front_end):
            os.close(fd)


class Link:
    """`received` gets every message, which is one or more frames; `broken` what went wrong with one.

    What can not be sent yet is kept: `unsent` says how many bytes.
    """

    def __init__(
        self,
        fds: LinkFds,
        *,
        executor: bool,
        received: Callable[[Bytes], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._memory = mmap.mmap(fds.memory, MEMORY_SIZE)
        memory = memoryview(self._memory)
        middle = _PAGE + HEADER_SIZE + RING_SIZE
        requests, answers = memory[_PAGE:middle], memory[middle:]
        self.page = memory[:_PAGE].cast("Q")  # what the executor tells without a message
        self._writer = RingWriter(answers if executor else requests)
        self._reader = RingReader(requests if executor else answers, limit=_MESSAGE_LIMIT)
        for view in (requests, answers, memory):
            view.release()  # those made of them stay
        self._own_wake = fds.wake_executor if executor else fds.wake_front_end
        self._other_wake = fds.wake_front_end if executor else fds.wake_executor
        self._fds = fds
        self._received = received
        self._broken = broken
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: Callable[[], None] | None = None
        self._frames: list[Bytes] = []  # of this turn
        self._waiting: deque[Message] = deque()  # for the end of the turn, or for room
        self._flushing = False
        self._full = False
        self._kept = 0  # bytes that have waited for room

    @property
    def unsent(self) -> int:
        """Bytes that wait for the other side to read."""
        return self._kept

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self._own_wake, self._woken)

    def close(self) -> None:
        if self._loop is None:
            return
        self._loop.remove_reader(self._own_wake)
        self._loop = None
        self._held = None
        self._frames.clear()
        self._waiting.clear()
        self._fds.close()
        self._writer.release()
        self._reader.release()
        self.page.release()
        # Whoever still looks at it, as a traceback may, keeps it for as long.
        with contextlib.suppress(BufferError):
            self._memory.close()

    def send(self, head: bytes, data: Sequence[Bytes], size: int) -> None:
        """One frame of `size` bytes, at the end of this turn of the loop."""
        if self._held is not None:
            self._release()
        if size >= _ALONE:
            self._gather()
            self._keep(Message([head, *data]))
        else:
            frames = self._frames
            frames.append(head)
            frames += data
        if not self._flushing:
            self._flush_soon()

    def hold(self, sending: Callable[[], None]) -> None:
        """`sending` is called before the next frame, or at the end of this turn: it sends what may grow till then."""
        if self._held is not None:
            self._release()
        if not self._flushing:
            self._flush_soon()
        if self._loop is not None:
            self._held = sending

    def _release(self) -> None:
        sending, self._held = self._held, None
        if sending is not None:
            sending()

    def _flush_soon(self) -> None:
        if self._loop is None:
            self._frames.clear()
            self._waiting.clear()
            return
        self._flushing = True
        self._loop.call_soon(self._flush)

    def _gather(self) -> None:
        if self._frames:
            self._keep(Message([b"".join(self._frames)]))
            self._frames = []

    def _keep(self, message: Message) -> None:
        self._waiting.append(message)
        self._kept += message.size

    def _flush(self) -> None:
        if self._held is not None:
            self._release()
        self._flushing = False
        if self._loop is None:
            return
        if self._waiting:
            self._gather()
            if not self._full:
                self._write()
            return
        frames, self._frames = self._frames, []
        if not frames:
            return
        data = b"".join(frames)
        if self._writer.put(data):
            os.eventfd_write(self._other_wake, 1)
        else:
            self._keep(Message([data]))
            self._write()

    def _write(self) -> None:
        waiting = self._waiting
        if not waiting:
            return
        while waiting:
            message = waiting[0]
            if not self._writer.write(message):
                self._full = True
                self._writer.ask_for_room()
                break
            waiting.popleft()
            self._kept -= message.size
        os.eventfd_write(self._other_wake, 1)

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._own_wake)
        except BlockingIOError:
            return
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - nonsense fails in many ways, and all end the link
            if self._loop is not None:
                self._loop.remove_reader(self._own_wake)
            self._broken(error)
            return
        if self._full and self._loop is not None:
            self._full = False
            self._write()

    def _read(self) -> None:
        reader = self._reader
        for _ in range(_PER_WAKE):
            message = reader.read()
            if message is None:
                break
            self._received(message)
            if self._loop is None:
                return
        else:
            os.eventfd_write(self._own_wake, 1)  # what is left has its turn after the others
        if reader.room_is_asked_for():
            os.eventfd_write(self._other_wake, 1)
