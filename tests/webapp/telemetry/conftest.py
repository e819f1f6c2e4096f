"""A runtime to read, its row, and a sampler that ticks when told."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.fakes.clock import Clock
from tests.fakes.counting_runtime import CountingRuntime
from webapp.serving.models import Runtime
from webapp.telemetry.sampler import Sampler, seconds_to_next, whole_second

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def row(db: None) -> Runtime:
    return Runtime.objects.create(
        name="edge-1", http_address="127.0.0.1:1", grpc_address="edge-1:1", embedded=True
    )


@pytest.fixture
def runtime(row: Runtime) -> Iterator[CountingRuntime]:
    with CountingRuntime().at(row.grpc_address) as counting:
        yield counting


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    one = Sampler(holder="test")
    yield one
    one.close()


@pytest.fixture
def tick(sampler: Sampler, clock: Clock) -> Callable[[], datetime]:
    """The next second's tick; the clock stands still in between."""
    clock.advance(seconds_to_next(clock.now()))

    def one() -> datetime:
        clock.advance(1)
        at = whole_second(clock.now())
        assert sampler.tick(at=at)
        return at

    return one
