"""A yard with everything the API can name, and the API's own description."""

from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from tests.webapp.api.described import Description
from tests.webapp.rollouts import conftest as rollouts
from tests.webapp.rollouts.yard import Yard

yard, canary = rollouts.yard, rollouts.canary


@pytest.fixture(scope="session")
def description() -> Description:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return Description(schema)


@pytest.fixture
def station(yard: Yard, canary: Any, settings: Any) -> Yard:
    """The yard with both versions loaded, everybody's token, and room for uploads."""
    for role in ("admin", "operator", "viewer"):
        yard.world.token(role)
    for name in ("UPLOAD_DIR", "QUARANTINE_DIR", "STAGING_DIR", "FILE_UPLOAD_TEMP_DIR"):
        folder = yard.repository.parent / f"{yard.repository.name}-{name.lower()}"
        folder.mkdir(exist_ok=True)
        setattr(settings, name, folder)
    return yard
