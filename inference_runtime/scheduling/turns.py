"""Whose turn it is among those that compete for slots: start-time fair queueing by priority. Pure.

An execution moves its claimant on by its weight. One that is new, or had no work, is placed where the
others are: it has no claim to turns it did not use, so nobody is passed by more often than the weights
allow. Those that share no pool, even through others, do not move each other on.
"""

from collections.abc import Iterable

from inference_runtime.scheduling.resource_pools import Claimant, Pool


class _Rivals:
    """Claimants that are connected through pools; `now` is the latest start among them."""

    __slots__ = ("now", "pools")

    def __init__(self) -> None:
        self.now = 0
        self.pools: set[Pool] = set()


class _Position:
    __slots__ = ("rivals", "start", "used")

    def __init__(self) -> None:
        self.start = 0  # of its latest execution
        self.used = 0  # where that execution ends
        self.rivals = _Rivals()


class Turns:
    def __init__(self) -> None:
        self._positions: dict[Claimant, _Position] = {}

    def join(self, claimants: Iterable[Claimant]) -> None:
        for claimant in claimants:
            self._positions[claimant] = _Position()
        self._connect()

    def leave(self, claimants: Iterable[Claimant]) -> None:
        for claimant in claimants:
            del self._positions[claimant]
        self._connect()

    def next_start(self, claimant: Claimant) -> int:
        """The smaller, the sooner its turn."""
        position = self._positions[claimant]
        return max(position.used, position.rivals.now)

    def begin(self, claimant: Claimant, start: int) -> None:
        position = self._positions[claimant]
        position.start = start
        position.used = start + claimant.weight
        position.rivals.now = max(position.rivals.now, start)

    def undo(self, claimant: Claimant) -> None:
        """It had its turn and did not execute."""
        position = self._positions[claimant]
        position.used = position.start

    def _connect(self) -> None:
        by_pool: dict[Pool, _Rivals] = {}
        for claimant, position in self._positions.items():
            rivals = position.rivals = _Rivals()
            for pool in claimant.needs:
                joined = by_pool.get(pool)
                rivals.pools |= joined.pools if joined is not None else {pool}
            by_pool.update(dict.fromkeys(rivals.pools, rivals))
        for claimant, position in self._positions.items():
            for pool in claimant.needs:
                position.rivals = by_pool[pool]
            position.rivals.now = max(position.rivals.now, position.start)
