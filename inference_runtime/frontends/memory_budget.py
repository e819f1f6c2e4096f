"""How much of requests that have not fully arrived the process holds, over all clients."""

from inference_runtime.errors import RuntimeFault, Unavailable


class MemoryBudget:
    """Counts bytes of incomplete bodies. Whoever takes gives back, whatever becomes of the request."""

    __slots__ = ("_left", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._left = limit_bytes

    @property
    def used_bytes(self) -> int:
        return self.limit_bytes - self._left

    def take(self, size: int) -> None:
        if size > self._left:
            raise _full()
        self._left -= size

    def give(self, size: int) -> None:
        self._left += size


def _full() -> RuntimeFault:
    return Unavailable("the server holds as many unfinished request bodies as it may; try again")
