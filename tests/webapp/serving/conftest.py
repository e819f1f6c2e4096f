"""A model with published versions, and an in-memory runtime at the embedded one's address."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.webapp.serving.steps import EDGE
from tests.world import World
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.jobs.choices import OPEN_STATES
from webapp.jobs.models import Job
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.fake import FakeRuntime
from webapp.serving.models import Deployment, Runtime
from webapp.serving.services import runtime_ensure_embedded
from workers.tasks import serving as tasks

_PORTS = {
    "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [-1, 4]}],
}


@dataclass
class Yard:
    """The embedded runtime (in memory), the model "echo", and a worker that works when told."""

    world: World
    repository: Path
    fake: Any
    runtime: Runtime
    model: InferenceModel
    others: dict[str, FakeRuntime] = field(default_factory=dict)

    def publish(self, number, *, config_text="", content=b"fine", state=VersionState.READY):
        directory = self.repository / self.model.name / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "model.onnx").write_bytes(content)
        return ModelVersion.objects.create(
            model=self.model, number=number, state=state, config_text=config_text, **_PORTS
        )

    def broken(self, number):
        return self.publish(number, content=b"broken")

    def attach(self, name="edge-1", **fake_settings):
        """A second runtime that reads the same repository."""
        fake = FakeRuntime(self.repository)
        for setting, value in fake_settings.items():
            setattr(fake, setting, value)
        port = 9000 + 10 * len(self.others)
        runtime = Runtime.objects.create(
            name=name, http_address=f"10.0.0.1:{port}", grpc_address=f"10.0.0.1:{port + 1}"
        )
        stand_in(runtime.grpc_address, fake)
        self.others[runtime.grpc_address] = fake
        tasks.probe_runtimes()
        runtime.refresh_from_db()
        return runtime, fake

    def work(self):
        """Carries out every open job, as the worker would."""
        done = []
        for job in list(Job.objects.filter(state__in=OPEN_STATES).order_by("created_at")):
            getattr(tasks, job.kind)(job.id)
            job.refresh_from_db()
            done.append(job)
        return done

    def probe(self):
        tasks.probe_runtimes()
        return self.work()

    def deployment(self, version, runtime=None):
        return Deployment.objects.get(version=version, runtime=runtime or self.runtime)

    def ready(self, fake=None):
        entries = (fake or self.fake).index()
        return [one.version for one in entries if one.model == self.model.name and one.ready]

    def table(self, fake=None):
        table = (fake or self.fake).traffic_get(self.model.name)
        return None if table is None else {arm.version: arm.weight for arm in table.arms}


@pytest.fixture
def yard(transactional_db, settings, tmp_path):
    settings.REPOSITORY_DIR = tmp_path / "repository"
    settings.STAGING_DIR = tmp_path / "staging"
    settings.REPOSITORY_DIR.mkdir()
    world = World.build()
    runtime = runtime_ensure_embedded()
    fake = FakeRuntime(settings.REPOSITORY_DIR)
    stand_in(runtime.grpc_address, fake)
    made = Yard(
        world=world,
        repository=settings.REPOSITORY_DIR,
        fake=fake,
        runtime=runtime,
        model=InferenceModel.objects.create(name="echo"),
    )
    tasks.probe_runtimes()
    runtime.refresh_from_db()
    yield made
    for address in (runtime.grpc_address, *made.others):
        stand_in(address, None)


@pytest.fixture
def edge(yard):
    """A runtime that answers at EDGE and is not registered yet."""
    fake = FakeRuntime(yard.repository)
    stand_in(EDGE["grpc_address"], fake)
    yield fake
    stand_in(EDGE["grpc_address"], None)
