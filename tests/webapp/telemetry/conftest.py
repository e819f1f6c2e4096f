"""A runtime to read, its row, and a sampler that ticks when told."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.counting_runtime import CountingRuntime
from webapp.serving.models import Runtime
from webapp.telemetry.sampler import Sampler, whole_second

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
def tick(sampler: Sampler) -> Callable[[], datetime]:
    """The next second's tick; the last of 60 ticks lies in the present."""
    start = whole_second(datetime.now(UTC)) - timedelta(seconds=60)
    count = 0

    def one() -> datetime:
        nonlocal count
        count += 1
        at = start + timedelta(seconds=count)
        assert sampler.tick(at=at)
        return at

    return one
