"""Which models wait for which: finds circles of models that call each other and can never go on.

A model is stuck when all its instances execute and each of them waits for a model that is stuck. A call
into such a circle would wait for ever; it is ended instead. Event loop only.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Protocol
from weakref import WeakKeyDictionary


class Caller(Protocol):
    """An instance that may call models while it executes."""

    @property
    def executing(self) -> bool: ...

    def called(self) -> Collection[str]:
        """Models whose answer it waits for."""


class CallGraph:
    def __init__(self) -> None:
        self._callers: dict[str, set[Caller]] = {}

    def join(self, model: str, caller: Caller) -> None:
        self._callers.setdefault(model, set()).add(caller)

    def leave(self, model: str, caller: Caller) -> None:
        callers = self._callers.get(model, set())
        callers.discard(caller)
        if not callers:
            self._callers.pop(model, None)

    def stuck(self, model: str) -> bool:
        suspects = self._reachable(model)
        while True:
            free = [name for name in suspects if not self._blocked(name, suspects)]
            if not free:
                return model in suspects
            suspects.difference_update(free)

    def _reachable(self, model: str) -> set[str]:
        found: set[str] = set()
        waiting = [model]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._calls_of(name)
        return found

    def _calls_of(self, name: str) -> Iterable[str]:
        return [called for caller in self._callers.get(name, ()) for called in caller.called()]

    def _blocked(self, name: str, suspects: set[str]) -> bool:
        """A model without callers here is another backend's, and answers by itself."""
        callers = self._callers.get(name)
        if not callers:
            return False
        return all(
            caller.executing and not suspects.isdisjoint(caller.called()) for caller in callers
        )


_graphs: WeakKeyDictionary[asyncio.AbstractEventLoop, CallGraph] = WeakKeyDictionary()


def call_graph(loop: asyncio.AbstractEventLoop) -> CallGraph:
    """The one of the server that runs on this loop."""
    return _graphs.setdefault(loop, CallGraph())
