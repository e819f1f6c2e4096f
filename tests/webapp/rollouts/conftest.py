"""The yard: a served model with versions 1 (stable) and 2 (a candidate, not loaded)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.clock import Clock
from tests.webapp.rollouts.yard import Yard
from tests.world import World
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.fake import FakeRuntime
from webapp.runtime_client.types import STATISTICS, TRAFFIC
from webapp.serving.models import Runtime


@pytest.fixture
def yard(transactional_db: None, clock: Clock, tmp_path: Path, settings) -> Iterator[Yard]:
    settings.REPOSITORY_DIR = tmp_path
    fake = FakeRuntime(tmp_path)
    stand_in("edge-1:8001", fake)
    runtime = Runtime.objects.create(
        name="edge-1",
        http_address="edge-1:8000",
        grpc_address="edge-1:8001",
        embedded=True,
        extensions=[TRAFFIC, STATISTICS],
    )
    model = InferenceModel.objects.create(name="resnet50")
    yard = Yard(World.build(), clock, fake, runtime, model, tmp_path)
    yard.deploy(yard.version(1))
    yield yard
    stand_in("edge-1:8001", None)


@pytest.fixture
def stable(yard: Yard) -> ModelVersion:
    return ModelVersion.objects.get(model=yard.model, number=1)


@pytest.fixture
def canary(yard: Yard) -> ModelVersion:
    """READY, and loaded beside stable."""
    version = yard.version(2)
    yard.deploy(version)
    return version
