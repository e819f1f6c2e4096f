"""Which arm of a traffic table a request goes to: same unit, same answer; no unit, a fair draw."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.spec.traffic import BUCKETS, TrafficArm, TrafficTable, bucket_of


@dataclass(slots=True)
class Target:
    """Where the requests of one range go right now."""

    upper: int  # exclusive
    arm: str
    version: LoadedVersion
    fallback: bool  # the arm the table names is not ready: these requests are another arm's


class TrafficSplit:
    """A table against what is ready; made anew whenever either changes."""

    __slots__ = ("_only", "_targets", "generation", "table", "unit_header")

    def __init__(self, table: TrafficTable, targets: tuple[Target, ...]) -> None:
        self.table = table
        self.generation = table.generation
        self.unit_header = table.unit_header
        self._targets = targets
        self._only = targets[0] if len(targets) == 1 else None

    def target(self, unit: str) -> Target:
        only = self._only
        if only is not None:
            return only
        # Without a unit every request is one of its own: a draw is as good as a hash, and cheaper.
        bucket = bucket_of(self.table.salt, unit) if unit else int(random.random() * BUCKETS)
        for target in self._targets:
            if bucket < target.upper:
                return target
        return self._targets[-1]


def split(
    table: TrafficTable, ready: Callable[[str, int], LoadedVersion | None]
) -> TrafficSplit | None:
    """None when no arm of the table is ready."""
    spare = _spare(table, ready)
    targets = []
    for upper, arm in table.ranges():
        version = ready(arm.model, arm.version)
        if version is not None:
            targets.append(Target(upper, arm.role, version, fallback=False))
        elif spare is not None:
            targets.append(Target(upper, spare[0].role, spare[1], fallback=True))
    return TrafficSplit(table, tuple(targets)) if targets else None


def _spare(
    table: TrafficTable, ready: Callable[[str, int], LoadedVersion | None]
) -> tuple[TrafficArm, LoadedVersion] | None:
    """The arm that stands in for others: a stable one first, one with traffic first."""
    order = sorted(table.arms, key=lambda arm: (arm.weight_buckets == 0, arm.role != "stable"))
    for arm in order:
        version = ready(arm.model, arm.version)
        if version is not None:
            return arm, version
    return None
