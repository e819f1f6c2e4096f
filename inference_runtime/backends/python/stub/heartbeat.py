"""Signs of life of a process, while what it loads takes its time."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from inference_runtime.backends.python.wire.frames import Kind

_EVERY_SECONDS = 0.3


@contextlib.contextmanager
def signs_of_life(send: Callable[[Kind, Any], None]) -> Iterator[None]:
    """One now and then until the block ends; they stop, too, when something holds the interpreter's lock."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_EVERY_SECONDS):
            with contextlib.suppress(OSError):
                send(Kind.ALIVE, {})

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
