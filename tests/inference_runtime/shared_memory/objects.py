"""Objects in shared memory for one test."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = Path("/dev/shm")


@contextmanager
def shm_object(content: bytes) -> Iterator[Path]:
    path = DIRECTORY / f"switchyard_{uuid.uuid4().hex}"
    path.write_bytes(content)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
