"""A control group of the kernel that bounds the memory of the processes in it, and kills in it what wants more."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.python_world import eventually

_OWN = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/self/mountinfo")


class MemoryGroup:
    """Of version 1 or 2, whichever is there."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._second = (path / "memory.max").exists()
        limit = "memory.max" if self._second else "memory.limit_in_bytes"
        (path / limit).write_text(str(limit_bytes))
        # Swapping out is no way to stay within it; where nothing is swapped the file may be missing.
        swap = "memory.swap.max" if self._second else "memory.swappiness"
        with contextlib.suppress(OSError):
            (path / swap).write_text("0")

    def take(self, pid: int) -> None:
        """What the process has already counts where it was; what it gets from now on counts here."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes the kernel has killed here for want of memory."""
        file = "memory.events" if self._second else "memory.oom_control"
        lines = (self._path / file).read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Skips the test where no group can be made."""
    path = _new_directory()
    try:
        yield MemoryGroup(path, limit_bytes)
    finally:
        eventually(lambda: _removed(path))  # once whoever was in it is dead


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def _new_directory() -> Path:
    name = f"switchyard-{uuid.uuid4().hex[:8]}"
    tried = []
    for parent in _parents():
        path = parent / name
        try:
            path.mkdir()
        except OSError as error:
            tried.append(f"{parent}: {error.strerror}")
            continue
        if any((path / limit).exists() for limit in ("memory.max", "memory.limit_in_bytes")):
            return path
        path.rmdir()
        tried.append(f"{parent}: its groups have no limit of memory")
    pytest.skip(f"no control group with a memory limit can be made here ({'; '.join(tried)})")


def _parents() -> Iterator[Path]:
    """Where a group may be made: in our own, or beside it. Version 2 has none within one that has processes."""
    for mount in _mounts():
        root, point = Path(mount[3]), Path(mount[4])
        second = mount[mount.index("-") + 1] == "cgroup2"
        own = _own_group(second)
        if own is None:
            continue
        # Inside a container our own group may lie above what is mounted.
        below = own.relative_to(root) if own.is_relative_to(root) else Path()
        for path in (below, *below.parents):
            yield point / path


def _mounts() -> Iterator[list[str]]:
    """Fields of the mounts that groups of memory may be made in."""
    for line in _MOUNTS.read_text().splitlines():
        fields = line.split()
        kind, _, options = fields[fields.index("-") + 1 :][:3]
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            yield fields


def _own_group(second: bool) -> Path | None:
    for line in _OWN.read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if (number == "0") if second else ("memory" in controllers.split(",")):
            return Path(path)
    return None
