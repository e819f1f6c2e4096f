"""How far back a chart looks, how finely, and where its points stand. Pure."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

RESOLUTIONS = (1, 10, 60)  # seconds a sample covers
KEPT = {
    1: timedelta(minutes=15),
    10: timedelta(hours=6),
    60: timedelta(days=7),
}
SLACK = timedelta(seconds=75)  # kept a little longer, so that the left edge of a chart is whole
MAX_POINTS = 900
DEFAULT_RANGE = "15m"
RANGES: dict[str, timedelta] = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}


@dataclass(frozen=True, slots=True)
class Window:
    """`count` steps of `step` seconds; point i stands at the end of step i, the last at `until`."""

    until: datetime
    step: int
    count: int

    @property
    def since(self) -> datetime:
        return self.until - timedelta(seconds=self.step * self.count)

    def index_of(self, at: datetime) -> int:
        """The step whose interval (start, end] holds `at`; may lie outside 0..count-1."""
        start = self.until.timestamp() - self.step * self.count
        return math.ceil((at.timestamp() - start) / self.step) - 1

    def moment(self, index: int) -> datetime:
        return self.since + timedelta(seconds=self.step * (index + 1))


def window_for(*, length: timedelta, until: datetime, now: datetime, finest: int = 1) -> Window:
    """The finest step that the kept samples allow and that needs no more than MAX_POINTS."""
    age = now - (until - length)
    resolution = next((r for r in RESOLUTIONS if r >= finest and age <= KEPT[r] + SLACK), 60)
    multiple = max(math.ceil(length.total_seconds() / resolution / MAX_POINTS), 1)
    step = resolution * multiple
    end = math.ceil(until.timestamp() / step) * step
    return Window(
        until=datetime.fromtimestamp(end, tz=UTC),
        step=step,
        count=max(math.ceil(length.total_seconds() / step), 1),
    )


def resolution_of(window: Window) -> int:
    """The coarsest samples that still fill every step."""
    return max(r for r in RESOLUTIONS if window.step % r == 0)
