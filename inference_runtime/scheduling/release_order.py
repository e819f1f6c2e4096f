"""Holds back what is ready early, so that it leaves in the order of its numbers. Pure."""

from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class ReleaseOrder(Generic[Item]):
    """Numbers start at 1 and have no gaps: whatever has one is finished some time, well or badly."""

    def __init__(self) -> None:
        self._next = 1
        self._held: dict[int, Item] = {}

    def finished(self, number: int, item: Item) -> Iterator[Item]:
        """What may be released now, in order."""
        self._held[number] = item
        while self._next in self._held:
            yield self._held.pop(self._next)
            self._next += 1
