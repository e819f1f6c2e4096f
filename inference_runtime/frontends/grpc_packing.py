"""Compressing what goes out on one stream: large messages in a thread, and none before its turn."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from inference_runtime.frontends.grpc_messages import DEFLATE_INLINE
from inference_runtime.protocol import compression

_NOT_YET: Final = b""  # no message is compressed to nothing


class _Place:
    __slots__ = ("message", "packed")

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.packed: bytes | None = _NOT_YET  # None: it could not be compressed


class Packing:
    """Event loop only. `size`: bytes of the messages that are still here."""

    __slots__ = ("_places", "size")

    def __init__(self) -> None:
        self._places: deque[_Place] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, message: bytes, level: int, later: Callable[[], None]) -> None:
        """`later` is called when one that was large is ready."""
        place = _Place(message)
        self._places.append(place)
        self.size += len(message)
        work = partial(compression.try_deflate, message, "gzip", level)
        if len(message) <= DEFLATE_INLINE:
            place.packed = work()
            return

        def finish(future: "asyncio.Future[bytes | None]") -> None:
            if not future.cancelled():
                place.packed = future.result()
                later()

        asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(finish)

    def take(self) -> Iterator[tuple[bytes, bool]]:
        """The messages whose turn it is, each with whether it is compressed."""
        while self._places and self._places[0].packed is not _NOT_YET:
            place = self._places.popleft()
            self.size -= len(place.message)
            if place.packed is None:
                yield place.message, False
            else:
                yield place.packed, True

    def clear(self) -> None:
        self._places.clear()
        self.size = 0
