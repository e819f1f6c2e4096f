"""A clock that moves when told."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Stands in for django.utils.timezone.now and for monotonic nanoseconds."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
        self._ns = 1_000_000_000

    def now(self) -> datetime:
        return self._now

    def monotonic_ns(self) -> int:
        return self._ns

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._ns += int(seconds * 1_000_000_000)
