"""A home of its own for each test, and the ways a version comes into being in it."""

from pathlib import Path
from typing import Any

import pytest

from tests.webapp.catalog.publishing import Publishing, point_settings_at
from tests.world import World


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    """SWITCHYARD_HOME of this test."""
    point_settings_at(settings, tmp_path)
    return tmp_path


@pytest.fixture
def publishing(transactional_db: None, world: World, home: Path) -> Publishing:
    """Transactions are real here: the worker's part closes connections and waits for commits."""
    return Publishing(world=world, home=home)
