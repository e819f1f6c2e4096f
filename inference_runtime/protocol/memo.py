"""Bounded memories of pure functions of bytes: what was parsed once need not be parsed again.

When a memo is full it forgets everything. That costs one slow round, needs no bookkeeping on a hit,
and a client that tries to fill it only slows down itself.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """`get` is the bound method of a dict that lives as long as the memo: hot paths may keep it."""

    __slots__ = ("_bytes", "_entries", "_limit_bytes", "_limit_count", "get")

    def __init__(self, *, limit_count: int, limit_bytes: int = 1 << 62) -> None:
        self._entries: dict[Key, Value] = {}
        self._limit_count = limit_count
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self.get: Callable[[Key], Value | None] = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, value: Value, size: int = 0) -> None:
        if len(self._entries) >= self._limit_count or self._bytes + size > self._limit_bytes:
            self.clear()
        if size <= self._limit_bytes:
            self._entries[key] = value
            self._bytes += size

    def clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
