"""Content encodings, bounded: a small body never becomes a big one than allowed."""

import gzip
import zlib
from typing import Final

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes

# 32 + 15: zlib finds out by itself whether gzip's or its own header stands in front.
_AUTO_DETECT: Final = 47
_MEMBERS: Final = 65536
_FIRST_STEP: Final = 64  # bytes
_ENCODINGS: Final = ("identity", "deflate", "gzip")


class TooLarge(Exception):
    """The data is longer than the limit once decompressed."""


def inflate(data: Bytes, limit_bytes: int) -> bytes:
    """Of gzip or zlib data, several gzip members one behind the other included."""
    view = memoryview(data)
    parts: list[bytes] = []
    position, left = 0, limit_bytes
    for _ in range(_MEMBERS):
        part, size = _inflate_member(view[position:], left)
        parts.append(part)
        position += size
        left -= len(part)
        if position == len(view):
            return b"".join(parts)
    raise _broken(f"it has more than {_MEMBERS} members")


def _inflate_member(view: memoryview, limit_bytes: int) -> tuple[bytes, int]:
    """One member, and how long it is compressed.

    zlib copies what it is given beyond the end of a member: in steps that grow with the member, or many small
    ones would be copied once for each of them.
    """
    stream = zlib.decompressobj(_AUTO_DETECT)
    parts: list[bytes] = []
    position, step, left = 0, _FIRST_STEP, limit_bytes
    while not stream.eof:
        piece = view[position : position + step]
        if not piece:
            raise _broken("it ends too early")
        try:
            part = stream.decompress(piece, left + 1)
        except zlib.error as error:
            raise _broken(str(error)) from error
        left -= len(part)
        if left < 0:
            raise TooLarge
        parts.append(part)
        position += len(piece)
        step *= 2
    return b"".join(parts), position - len(stream.unused_data)


def _broken(why: str) -> InvalidArgument:
    return InvalidArgument(f"failed to decompress the request body: {why}")


def deflate(data: Bytes, encoding: str, level: int = 6) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data, compresslevel=level, mtime=0)
    return zlib.compress(data, level)


def try_deflate(data: Bytes, encoding: str, level: int = 6) -> bytes | None:
    """None where it fails, mostly for want of memory: what can not be compressed is sent as it is."""
    try:
        return deflate(data, encoding, level)
    except (MemoryError, OverflowError, zlib.error):
        return None


def choose(accept_encoding: str) -> str:
    """The encoding with the highest weight, the earliest of equals; malformed entries are skipped."""
    best, best_weight = "identity", 0.0
    for entry in accept_encoding.split(","):
        name, _, parameter = entry.strip().partition(";")
        name = name.strip().lower()
        weight = _weight(parameter.strip())
        if name in _ENCODINGS and weight is not None and weight > best_weight:
            best, best_weight = name, weight
    return best


def _weight(parameter: str) -> float | None:
    if not parameter:
        return 1.0
    key, _, text = parameter.partition("=")
    if key.strip().lower() != "q":
        return None
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0.0 <= weight <= 1.0 else None
