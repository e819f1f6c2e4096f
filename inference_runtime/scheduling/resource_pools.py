"""The slots that executions hold, by pool: how many there are, who needs them, who holds them. Pure.

A pool is a resource of the whole server or of one device. Its capacity is what was set while running,
else what the command line lists, else the most that any one instance needs, so that everything can
run, though perhaps one at a time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference_runtime.errors import InvalidArgument, NotFound
from inference_runtime.spec.model_config import InstanceSpec

GLOBAL = "global"  # the device of a pool that is the whole server's
EVERY_DEVICE = ""
_CPU = "cpu"
_FIRST_GPU = "gpu:0"  # where Triton counts the instances on CPUs, too
# Operators set capacities of pools that they see; names of models long gone must not pile up.
_MOST_SET = 1024

# (name, device) of the command line → slots; the device may be EVERY_DEVICE.
Listed = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, order=True)
class Pool:
    name: str
    device: str


@dataclass(slots=True, eq=False)
class Claimant:
    """An instance that has to hold slots while it executes."""

    model: str
    version: int
    instance: str
    needs: Mapping[Pool, int]
    weight: int = 1  # how much one execution costs it in turns

    @classmethod
    def of(cls, model: str, version: int, spec: InstanceSpec) -> "Claimant":
        needs: dict[Pool, int] = {}
        for need in spec.resources:
            pool = Pool(need.name, GLOBAL if need.whole_server else spec.device)
            if need.count:
                needs[pool] = max(need.count, needs.get(pool, 0))
        return cls(model, version, spec.name, needs, max(spec.priority, 1))


@dataclass(frozen=True, slots=True)
class PoolUse:
    pool: Pool
    capacity: int
    in_use: int
    waiting: int  # instances that would execute if they had their slots
    holders: tuple[Claimant, ...]


class ResourcePools:
    def __init__(self, listed: Listed) -> None:
        self._listed = listed
        self._set: dict[Pool, int] = {}
        self._members: list[Claimant] = []
        self._holders: list[Claimant] = []
        self._required: dict[Pool, int] = {}
        self._in_use: Counter[Pool] = Counter()

    def add(self, claimants: Sequence[Claimant]) -> None:
        """All of them or none; raises InvalidArgument when one could never execute."""
        members = [*self._members, *claimants]
        _check_names(members)
        for pool, count in _most_needed(claimants).items():
            limit = self._limit(pool)
            if limit is not None and limit < count:
                raise InvalidArgument(too_few(pool.name, limit, count))
        self._members = members
        self._required = _most_needed(members)

    def remove(self, claimants: Iterable[Claimant]) -> None:
        gone = set(claimants)
        self._members = [member for member in self._members if member not in gone]
        self._required = _most_needed(self._members)

    def fits(self, claimant: Claimant) -> bool:
        return all(
            self._in_use[pool] + count <= self.capacity(pool)
            for pool, count in claimant.needs.items()
        )

    def take(self, claimant: Claimant) -> None:
        self._holders.append(claimant)
        self._in_use.update(claimant.needs)

    def give(self, claimant: Claimant) -> None:
        self._holders.remove(claimant)
        self._in_use.subtract(claimant.needs)

    def capacity(self, pool: Pool) -> int:
        limit = self._limit(pool)
        return self._required.get(pool, 0) if limit is None else limit

    def change(self, capacities: Mapping[Pool, int | None]) -> None:
        """All of them or none; None takes back what was set. Holders keep their slots to the end."""
        known = set(self.pools())
        for pool, capacity in capacities.items():
            if pool not in known:
                raise NotFound(f'there is no resource "{pool.name}" on device "{pool.device}"')
            limit = self._given(pool) if capacity is None else capacity
            if limit is not None:
                self._check_change(pool, limit)
        kept = {**self._set, **capacities}
        now = {pool: capacity for pool, capacity in kept.items() if capacity is not None}
        if len(now) > _MOST_SET:
            raise InvalidArgument(f"no more than {_MOST_SET} capacities can be set")
        self._set = now

    def pools(self) -> list[Pool]:
        """Those that an instance needs or holds, and those whose capacity was set."""
        held = {pool for pool, count in self._in_use.items() if count}
        return sorted(held | self._required.keys() | self._set.keys())

    def use(self, pool: Pool, waiting: Iterable[Claimant]) -> PoolUse:
        return PoolUse(
            pool,
            self.capacity(pool),
            self._in_use[pool],
            sum(1 for claimant in waiting if pool in claimant.needs),
            tuple(holder for holder in self._holders if pool in holder.needs),
        )

    def _limit(self, pool: Pool) -> int | None:
        set_ = self._set.get(pool)
        return self._given(pool) if set_ is None else set_

    def _given(self, pool: Pool) -> int | None:
        """What the command line says; a list that leaves a resource out leaves none of it."""
        if not self._listed:
            return None
        devices = [pool.device, EVERY_DEVICE]
        if pool.device == _CPU:
            devices.insert(1, _FIRST_GPU)
        counts = [self._listed.get((pool.name, device)) for device in devices]
        if pool.device == GLOBAL:  # Triton ignores the device that was given with a global resource
            counts = [count for (name, _), count in self._listed.items() if name == pool.name]
        return next((count for count in counts if count is not None), 0)

    def _check_change(self, pool: Pool, capacity: int) -> None:
        required = self._required.get(pool, 0)
        if capacity >= required:
            return
        users = sorted(
            {
                f"'{member.model}' version {member.version}"
                for member in self._members
                if member.needs.get(pool, 0) > capacity
            }
        )
        raise InvalidArgument(
            f"{too_few(pool.name, capacity, required)}: needed by {', '.join(users)}"
        )


def too_few(name: str, limit: int, required: int) -> str:
    return (
        f'Resource count for "{name}" is limited to {limit} which will prevent scheduling of one or '
        f"more model instances, the minimum required count is {required}"
    )


def _most_needed(claimants: Iterable[Claimant]) -> dict[Pool, int]:
    required: dict[Pool, int] = {}
    for claimant in claimants:
        for pool, count in claimant.needs.items():
            required[pool] = max(count, required.get(pool, 0))
    return required


def _check_names(claimants: Iterable[Claimant]) -> None:
    pools = {pool for claimant in claimants for pool in claimant.needs}
    for name in sorted({pool.name for pool in pools if pool.device == GLOBAL}):
        if any(pool.name == name and pool.device != GLOBAL for pool in pools):
            raise InvalidArgument(
                f'Resource "{name}" is present as both global and device-specific resource in the '
                "model configuration."
            )
