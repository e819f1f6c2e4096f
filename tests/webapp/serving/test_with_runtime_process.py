"""The whole of serving against a runtime process: requests meet no failure, state converges."""

import shutil
import time

import pytest

from tests.onnx_models import add_constant, write_model
from tests.webapp.runtime_client.runtime_process import RuntimeProcess
from tests.webapp.serving.conftest import Yard
from tests.webapp.serving.request_stream import RequestStream
from tests.webapp.serving.steps import deploy, split, two_versions, undeploy
from tests.world import World
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.serving.choices import DeploymentState, RuntimeHealth
from webapp.serving.models import Runtime
from webapp.serving.selectors import client_for, config_in_force
from webapp.serving.services import (
    runtime_ensure_embedded,
    runtime_probe,
    runtimes_probe,
    serving_config_set,
    traffic_set,
)

pytestmark = pytest.mark.slow


class RealYard(Yard):
    """`fake` is a client of a runtime process here; versions answer with their own number."""

    process: RuntimeProcess

    def publish(self, number, *, config_text="", **_):
        write_model(self.repository, "echo", add_constant(number), version=number)
        ports = {"datatype": "FP32", "shape": [-1, 4]}
        return ModelVersion.objects.create(
            model=self.model,
            number=number,
            state=VersionState.READY,
            config_text=config_text,
            inputs=[{"name": "INPUT0", **ports}],
            outputs=[{"name": "OUTPUT0", **ports}],
        )

    def broken(self, number):
        version = self.publish(number)
        (self.repository / "echo" / str(number) / "model.onnx").write_bytes(b"not a model")
        return version

    def save(self, **values):
        job = serving_config_set(model=self.model, values=values, actor=self.world.olga)
        self.work()
        job.refresh_from_db()
        return job

    def restart(self):
        self.process.start()
        deadline = time.monotonic() + 10  # a gRPC channel looks again only after a moment
        while self.health()[0] == RuntimeHealth.UNREACHABLE:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def health(self):
        runtime = runtime_probe(runtime=Runtime.objects.get(embedded=True))
        return runtime.health, runtime.health_reason


@pytest.fixture
def yard(transactional_db, settings, tmp_path):
    settings.REPOSITORY_DIR = tmp_path / "repository"
    settings.STAGING_DIR = tmp_path / "staging"
    settings.REPOSITORY_DIR.mkdir()
    process = RuntimeProcess(settings.REPOSITORY_DIR, tmp_path / "state")
    settings.RUNTIME_HTTP_PORT = process.http_port
    settings.RUNTIME_GRPC_PORT = process.grpc_port
    settings.RUNTIME_METRICS_PORT = process.metrics_port
    process.start()
    runtime = runtime_ensure_embedded()
    made = RealYard(
        world=World.build(),
        repository=settings.REPOSITORY_DIR,
        fake=client_for(runtime=runtime),
        runtime=runtime,
        model=InferenceModel.objects.create(name="echo"),
    )
    made.process = process
    runtimes_probe()
    yield made
    process.stop()


def test_no_request_is_lost_while_versions_come_and_go(yard):
    first, second = yard.publish(1), yard.publish(2)
    assert deploy(yard, first).state == "SUCCEEDED"
    with RequestStream(yard.fake) as requests:
        assert deploy(yard, second).state == "SUCCEEDED"
        requests.wait_for(100)
        assert set(requests.versions) == {1}
        split(yard, 0.5)
        requests.restart_counting()
        requests.wait_for(100)
        assert set(requests.versions) == {1, 2}
        job = yard.save(max_batch_size=16, max_queue_delay_microseconds=100, instance_count=2)
        assert job.state == "SUCCEEDED", job.error
        requests.wait_for(50)
        traffic_set(
            model=yard.model,
            arms=[{"version": 2, "role": "stable", "weight": 1.0}],
            actor=yard.world.olga,
            reason="promote",
        )
        requests.wait_for(20)  # those that were on their way
        requests.restart_counting()
        assert undeploy(yard, first).state == "SUCCEEDED"
        requests.wait_for(50)
        assert set(requests.versions) == {2}
    assert requests.failures == []
    assert yard.fake.model_config("echo").max_batch_size == 16


def test_a_killed_runtime_serves_again_what_it_served(yard):
    two_versions(yard)
    split(yard, 0.25)
    yard.process.kill()
    assert yard.health()[0] == RuntimeHealth.UNREACHABLE
    yard.restart()
    assert yard.ready() == [1, 2]
    assert yard.table() == {1: 0.75, 2: 0.25}
    assert yard.probe() == []
    assert yard.health() == (RuntimeHealth.READY, "")


def test_a_runtime_that_lost_its_memory_is_brought_back_without_a_request_astray(yard):
    two_versions(yard)
    split(yard, 0.0)
    yard.process.kill()
    shutil.rmtree(yard.process.state)
    yard.restart()
    assert yard.ready() == []
    with RequestStream(yard.fake) as requests:
        jobs = yard.probe()
        assert [(job.kind, job.state) for job in jobs] == [("reconcile_runtime", "SUCCEEDED")]
        requests.wait_for(50)
    assert set(requests.versions) == {1}
    assert yard.ready() == [1, 2]
    assert yard.table() == {1: 1.0, 2: 0.0}


def test_a_version_that_cannot_be_loaded_disturbs_nobody(yard):
    assert deploy(yard, yard.publish(1)).state == "SUCCEEDED"
    before = config_in_force(model=yard.model)
    bad = yard.broken(2)
    with RequestStream(yard.fake) as requests:
        job = deploy(yard, bad)
        assert job.error["reason"] == "LOAD_FAILED"
        assert "model.onnx" in job.error["detail"]
        requests.wait_for(30)
    assert requests.failures == []
    assert set(requests.versions) == {1}
    assert yard.deployment(bad).state == DeploymentState.FAILED
    assert config_in_force(model=yard.model) == before
    health, reason = yard.health()
    assert health == RuntimeHealth.NOT_READY
    assert "echo version 2 cannot be served" in reason
    assert undeploy(yard, bad).state == "SUCCEEDED"
    assert yard.probe() == []
    assert yard.ready() == [1]


def test_a_config_the_runtime_refuses_leaves_the_old_one_in_force(yard):
    assert deploy(yard, yard.publish(1)).state == "SUCCEEDED"
    assert yard.save(max_batch_size=8).state == "SUCCEEDED"
    before = config_in_force(model=yard.model)
    yard.model.versions.update(
        config_text='backend: "onnxruntime" parameters { key: "intra_op_thread_count" '
        'value { string_value: "many" } } instance_group [ { kind: KIND_GPU gpus: [ 63 ] } ]'
    )
    with RequestStream(yard.fake) as requests:
        job = yard.save(max_batch_size=4)
        assert job.error["reason"] == "CONFIG_REFUSED", job.error
        requests.wait_for(20)
    assert requests.failures == []
    assert config_in_force(model=yard.model) == before
    assert yard.fake.model_config("echo").max_batch_size == 8


def test_batching_and_the_batcher_can_be_switched_off(yard):
    assert deploy(yard, yard.publish(1)).state == "SUCCEEDED"
    assert yard.fake.model_config("echo").HasField("dynamic_batching")
    assert yard.save(max_batch_size=8, dynamic_batching=False).state == "SUCCEEDED"
    config = yard.fake.model_config("echo")
    assert config.max_batch_size == 8
    assert not config.HasField("dynamic_batching")
    assert yard.save(max_batch_size=0).state == "SUCCEEDED"
    assert yard.fake.model_config("echo").max_batch_size == 0
    with RequestStream(yard.fake) as requests:
        requests.wait_for(10)
    assert requests.failures == []
    assert yard.save(max_queue_size=3, preferred_batch_sizes=[2, 4]).state == "SUCCEEDED"
    policy = yard.fake.model_config("echo").dynamic_batching
    assert list(policy.preferred_batch_size) == [2, 4]
    assert policy.default_queue_policy.max_queue_size == 3


def test_a_model_goes_out_of_service_and_comes_back(yard):
    first = yard.publish(1)
    assert deploy(yard, first).state == "SUCCEEDED"
    assert undeploy(yard, first, out_of_service=True).state == "SUCCEEDED"
    assert yard.ready() == []
    assert yard.fake.traffic_get("echo") is None
    assert yard.probe() == []
    assert deploy(yard, first).state == "SUCCEEDED"
    assert yard.table() == {1: 1.0}
