"""Which instance of which model executes next, when executions need slots of shared resources. Pure.

An instance with work is *staged*. Of the staged ones the one whose turn it is (see `turns`) gets its
slots first; while it waits for them, nobody who needs any of the same overtakes it, so an instance
that needs many is not starved by those that need few.
"""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence

from inference_runtime.scheduling.resource_pools import (
    Claimant,
    Listed,
    Pool,
    PoolUse,
    ResourcePools,
)
from inference_runtime.scheduling.turns import Turns

Granted = Callable[[Claimant], None]


class RateLimiter:
    """One for the server. `granted` is called inside `stage`, `release`, `leave` and `change`: it must
    only remember what it was told."""

    def __init__(self, listed: Listed | None = None) -> None:
        self._pools = ResourcePools(listed or {})
        self._turns = Turns()
        self._granted: dict[Claimant, Granted] = {}
        self._holding: set[Claimant] = set()
        self._staged: list[tuple[int, int, Claimant]] = []  # by start, then first come
        self._serial = 0

    def join(self, claimants: Sequence[Claimant], granted: Granted) -> None:
        """Raises InvalidArgument when one of them could never execute."""
        self._pools.add(claimants)
        self._turns.join(claimants)
        self._granted.update(dict.fromkeys(claimants, granted))

    def leave(self, claimants: Sequence[Claimant]) -> None:
        """They take no part any more; what they still hold is free."""
        for claimant in claimants:
            del self._granted[claimant]
            if claimant in self._holding:
                self._free(claimant)
        self._staged = [entry for entry in self._staged if entry[2] in self._granted]
        self._turns.leave(claimants)
        self._pools.remove(claimants)
        self._serve()

    def first(self, claimants: Sequence[Claimant]) -> Claimant:
        """The one whose turn comes first."""
        return min(claimants, key=self._turns.next_start)

    def stage(self, claimant: Claimant) -> None:
        """It has work; `granted` is called when it has its slots, perhaps before this returns."""
        self._line_up(claimant)
        self._serve()

    def release(
        self, claimant: Claimant, *, executed: bool = True, successor: Claimant | None = None
    ) -> None:
        """Its slots are free. `successor` is staged before they are given on: a model with more work
        must not lose its turn to another only because the other's request came first."""
        self._free(claimant)
        if not executed:
            self._turns.undo(claimant)
        if successor is not None:
            self._line_up(successor)
        self._serve()

    def change(self, capacities: Mapping[Pool, int | None]) -> None:
        """Raises InvalidArgument when an instance could no longer execute, NotFound for an unknown pool."""
        self._pools.change(capacities)
        self._serve()

    def use(self) -> list[PoolUse]:
        waiting = [claimant for _, _, claimant in self._staged]
        return [self._pools.use(pool, waiting) for pool in self._pools.pools()]

    def _line_up(self, claimant: Claimant) -> None:
        self._serial += 1
        insort(self._staged, (self._turns.next_start(claimant), self._serial, claimant))

    def _free(self, claimant: Claimant) -> None:
        self._holding.remove(claimant)
        self._pools.give(claimant)

    def _serve(self) -> None:
        staged, self._staged = self._staged, []
        awaited: set[Pool] = set()
        for entry in staged:
            start, _, claimant = entry
            if awaited.isdisjoint(claimant.needs) and self._pools.fits(claimant):
                self._turns.begin(claimant, start)
                self._holding.add(claimant)
                self._pools.take(claimant)
                self._granted[claimant](claimant)
            else:
                awaited.update(claimant.needs)
                self._staged.append(entry)
