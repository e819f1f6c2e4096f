"""Content encodings, bounded: a small body never becomes a big one than allowed."""

import gzip
import zlib
from typing import Final

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes

# 32 + 15: zlib finds out by itself whether gzip's or its own header stands in front.
_AUTO_DETECT: Final = 47
_ENCODINGS: Final = ("identity", "deflate", "gzip")


class TooLarge(Exception):
    """The data is longer than the limit once decompressed."""


def inflate(data: Bytes, limit_bytes: int) -> bytes:
    """Of gzip or zlib data, several gzip members one behind the other included."""
    parts: list[bytes] = []
    left = limit_bytes
    rest: Bytes = data
    while True:
        stream = zlib.decompressobj(_AUTO_DETECT)
        try:
            part = stream.decompress(rest, left + 1)
        except zlib.error as error:
            raise InvalidArgument(f"failed to decompress the request body: {error}") from error
        left -= len(part)
        if left < 0:
            raise TooLarge
        parts.append(part)
        if not stream.eof:
            raise InvalidArgument("failed to decompress the request body: it ends too early")
        rest = stream.unused_data
        if not rest:
            return b"".join(parts)


def deflate(data: Bytes, encoding: str, level: int = 6) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data, compresslevel=level, mtime=0)
    return zlib.compress(data, level)


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
