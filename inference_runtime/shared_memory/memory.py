"""What lies behind a region, whoever's memory it is."""

from typing import Protocol

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes


class Memory(Protocol):
    """Offsets count from the start of the registered window; the caller keeps inside it.

    `read` and `write` may be called on any thread, and raise RuntimeFault when the client has taken the
    memory away meanwhile.
    """

    def read(self, offset: int, size: int) -> Bytes:
        """A copy: the client may write to its memory at any time."""

    def write(self, offset: int, data: Bytes) -> None: ...

    def close(self) -> None: ...


def invalid_registration(name: str) -> InvalidArgument:
    return InvalidArgument(f"failed to register shared memory region '{name}': invalid args")
