"""What a benchmark run sends: a bounded ladder of concurrency, windows of bounded length. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_CONCURRENCY = 512
MAX_RUNGS = 16
MAX_WINDOWS = 10
WINDOW_SECONDS = (0.2, 60.0)
DEFAULT_LADDER = (1, 2, 4, 8, 16, 32)
DEFAULT_WINDOW_SECONDS = 2.0
MAX_BATCH = 1024


class BadPlan(ValueError):
    """The plan cannot be meant; the text names the field and what is allowed."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    ladder: tuple[int, ...]
    window_seconds: float
    batch_size: int

    @property
    def longest_seconds(self) -> float:
        return len(self.ladder) * MAX_WINDOWS * self.window_seconds


def load_plan(
    *, concurrency: Sequence[object] | None, window_seconds: object, batch_size: object
) -> LoadPlan:
    """Reads what a caller asked for. Raises BadPlan."""
    ladder = DEFAULT_LADDER if concurrency is None else _ladder(concurrency)
    return LoadPlan(ladder, _window(window_seconds), _batch(batch_size))


def _ladder(values: Sequence[object]) -> tuple[int, ...]:
    if not values or len(values) > MAX_RUNGS:
        raise BadPlan(f"concurrency: give 1 to {MAX_RUNGS} numbers, such as [1, 2, 4, 8].")
    rungs = set()
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadPlan(f"concurrency: expected whole numbers, got {value!r}.")
        if not 1 <= value <= MAX_CONCURRENCY:
            raise BadPlan(f"concurrency: {value} is not between 1 and {MAX_CONCURRENCY}.")
        rungs.add(value)
    return tuple(sorted(rungs))


def _window(value: object) -> float:
    if value is None:
        return DEFAULT_WINDOW_SECONDS
    low, high = WINDOW_SECONDS
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadPlan(f"window_seconds: expected a number from {low:g} to {high:g}, got {value!r}.")
    return float(value)


def _batch(value: object) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_BATCH:
        raise BadPlan(f"batch_size: expected a whole number from 1 to {MAX_BATCH}, got {value!r}.")
    return value
