"""POSIX shared memory objects, opened by name and read and written through their descriptor.

Never mapped (ADR 0010): reading a mapping whose object its owner has truncated ends the process with
SIGBUS, and what a native kernel has checked must not change while it computes.
"""

import errno
import mmap
import os
import stat
from typing import Final

from inference_runtime.errors import InvalidArgument, RuntimeFault, Unavailable
from inference_runtime.shared_memory.memory import invalid_registration
from inference_runtime.spec.messages import Bytes

# Objects of the server's own, which no client may touch; Triton's prefix, so its clients know it.
RESERVED_PREFIX: Final = "triton_python_backend_shm_region_"
_DIRECTORY: Final = "/dev/shm"  # where Linux keeps the objects of shm_open
# Not through links, and without waiting for the other end of a pipe that somebody put there.
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NAME_BYTES: Final = 255
_KEY_LIMIT: Final = 1024  # characters, with the slashes in front
_ADDRESS_SPACE: Final = 2**63
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class PosixMemory:
    """`[offset, offset + byte_size)` of the object `key`, which has to be there and of that size now."""

    __slots__ = ("_fd", "_name", "_start")

    def __init__(self, name: str, key: str, offset: int, byte_size: int) -> None:
        object_name = _object_name(name, key)
        self._name = name
        self._start = offset
        self._fd = _open(key, object_name)
        try:
            _check_window(name, self._fd, offset, byte_size)
        except BaseException:
            os.close(self._fd)
            raise

    def read(self, offset: int, size: int) -> bytes:
        at = self._start + offset
        data = os.pread(self._fd, size, at)
        if len(data) < size:
            data = self._read_on(data, size, at)
        return data

    def write(self, offset: int, data: Bytes) -> None:
        at = self._start + offset
        end = at + len(data)
        # Writing behind the end would make the object grow again, against its owner's will.
        if os.fstat(self._fd).st_size < end:
            raise self._truncated()
        left = memoryview(data)
        try:
            while left:
                left = left[os.pwrite(self._fd, left, end - len(left)) :]
        except OSError as error:
            raise Unavailable(
                f"shared memory region '{self._name}' can not be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        os.close(self._fd)

    def _read_on(self, data: bytes, size: int, at: int) -> bytes:
        """One call reads at most 2 GiB."""
        parts = [data]
        have = len(data)
        while parts[-1] and have < size:
            parts.append(os.pread(self._fd, size - have, at + have))
            have += len(parts[-1])
        if have < size:
            raise self._truncated()
        return b"".join(parts)

    def _truncated(self) -> RuntimeFault:
        return InvalidArgument(
            f"shared memory region '{self._name}' is larger than the object behind it, which has "
            "become smaller since the region was registered"
        )


def _object_name(name: str, key: str) -> str:
    """The entry of the directory that `key` means; refuses everything that is none."""
    stripped = key.lstrip("/")
    if not stripped:
        raise InvalidArgument(
            f"cannot register shared memory region '{name}' - invalid shm key '{key}'"
        )
    if stripped.startswith(RESERVED_PREFIX):
        raise InvalidArgument(
            f"cannot register shared memory region '{name}' with key '{key}' as the key contains the "
            f"reserved prefix '{RESERVED_PREFIX}'"
        )
    size = len(stripped.encode("utf-8", "surrogatepass"))
    if len(key) > _KEY_LIMIT:
        raise InvalidArgument(f"the key of a shared memory region may have {_KEY_LIMIT} characters")
    if stripped in (".", "..") or "/" in stripped or "\0" in stripped or size > _NAME_BYTES:
        raise _unable(key)
    return stripped


def _open(key: str, object_name: str) -> int:
    try:
        fd = os.open(f"{_DIRECTORY}/{object_name}", _FLAGS)
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, OSError) and error.errno in _EXHAUSTED:
            raise Unavailable(f"Unable to open shared memory region: '{key}'") from error
        raise _unable(key) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _unable(key)
    return fd


def _unable(key: str) -> InvalidArgument:
    return InvalidArgument(f"Unable to open shared memory region: '{key}'")


def _check_window(name: str, fd: int, offset: int, byte_size: int) -> None:
    end = offset + byte_size
    if end > os.fstat(fd).st_size or end >= _ADDRESS_SPACE:
        raise invalid_registration(name)
    # No mapping is made, but one has to be possible: what works here works with Triton.
    if byte_size == 0 or offset % mmap.ALLOCATIONGRANULARITY:
        raise InvalidArgument(
            f"failed to register shared memory region '{name}': unable to process address space or "
            "shared-memory descriptor: Invalid argument"
        )
