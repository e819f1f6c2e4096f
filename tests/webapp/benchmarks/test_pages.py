"""The page of one run, as it is opened and as it follows the run."""

from typing import Any

import pytest

from tests.world import World
from webapp.benchmarks.choices import BenchmarkState
from webapp.benchmarks.models import BenchmarkRun
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion


@pytest.fixture
def run(world: World) -> BenchmarkRun:
    model = InferenceModel.objects.create(name="resnet50", last_version=1)
    version = ModelVersion.objects.create(model=model, number=1, state=VersionState.READY)
    return BenchmarkRun.objects.create(
        version=version,
        protocol="grpc",
        concurrency=[1, 2],
        window_seconds=0.5,
        batch_size=1,
        state=BenchmarkState.RUNNING,
        requested_by=world.olga,
    )


def fragment(world: World, run: BenchmarkRun) -> str:
    """What the open page asks for when the run moves."""
    client: Any = world.client("operator")
    return str(client.get(f"/benchmarks/{run.id}/", HTTP_HX_REQUEST="true").content.decode())


def test_an_open_page_hears_of_the_end_in_its_header_too(world: World, run: BenchmarkRun) -> None:
    while_running = fragment(world, run)
    assert "you may leave this page" in while_running
    assert "Cancel the run" in while_running
    assert 'hx-swap-oob="delete"' not in while_running

    BenchmarkRun.objects.filter(id=run.id).update(state=BenchmarkState.SUCCEEDED)
    at_the_end = fragment(world, run)
    assert "<html" not in at_the_end
    assert "you may leave this page" not in at_the_end
    assert "Cancel the run" not in at_the_end
    assert "Measure again" in at_the_end
    for part in ("run-state", "run-action", "run-job"):
        assert f'id="{part}"' in at_the_end


def test_the_page_as_opened_has_each_part_once(world: World, run: BenchmarkRun) -> None:
    page = world.client("operator").get(f"/benchmarks/{run.id}/").content.decode()
    assert page.count('id="run-state"') == page.count('id="run-action"') == 1
    assert "hx-swap-oob" not in page
