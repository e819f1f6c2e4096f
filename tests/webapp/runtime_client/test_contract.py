"""What the control plane relies on, held to by the in-memory runtime and the real one alike."""

import numpy as np
import pytest

from tests.onnx_models import identity, write_model
from webapp.runtime_client.errors import RuntimeRefused
from webapp.runtime_client.metrics_text import parse_metrics
from webapp.runtime_client.types import STATISTICS, TRAFFIC, Tensor, TrafficArm, TrafficTable


def specific(*versions):
    numbers = ", ".join(str(version) for version in versions)
    return f"version_policy {{ specific {{ versions: [{numbers}] }} }}\n"


def publish(repository, name, *versions, config=None):
    for version in versions:
        write_model(repository, name, identity(), version=version)
    if config is not None:
        (repository / name / "config.pbtxt").write_text(config)


def ready_versions(runtime, name):
    return [entry.version for entry in runtime.index() if entry.model == name and entry.ready]


def table(generation, *arms, name="echo", salt="salt"):
    return TrafficTable(
        model=name,
        generation=generation,
        salt=salt,
        arms=tuple(TrafficArm(version, role, weight) for version, role, weight in arms),
    )


def both_loaded(runtime, repository):
    publish(repository, "echo", 1, 2, config=specific(1, 2))
    runtime.load("echo")


def test_is_live_and_ready_and_names_our_extensions(runtime):
    assert runtime.live()
    assert runtime.ready()
    metadata = runtime.metadata()
    assert metadata.name
    assert metadata.has(TRAFFIC)
    assert metadata.has(STATISTICS)


def test_lists_a_model_that_was_never_loaded_without_a_version(runtime, repository):
    publish(repository, "echo", 1)
    (entry,) = runtime.index()
    assert (entry.model, entry.version, entry.ready) == ("echo", None, False)


def test_loads_the_versions_the_policy_names(runtime, repository):
    publish(repository, "echo", 1, 2, 3, config=specific(1, 3))
    runtime.load("echo")
    assert ready_versions(runtime, "echo") == [1, 3]
    assert runtime.model_ready("echo", 3)
    assert runtime.model_ready("echo")


def test_a_version_left_out_of_the_policy_is_unloaded_by_the_next_load(runtime, repository):
    both_loaded(runtime, repository)
    publish(repository, "echo", config=specific(2))
    runtime.load("echo")
    assert ready_versions(runtime, "echo") == [2]
    with pytest.raises(RuntimeRefused):
        runtime.infer("echo", [Tensor("INPUT0", "FP32", np.ones((1, 4), np.float32))], version=1)


def test_an_override_in_the_call_wins_over_the_file(runtime, repository):
    publish(repository, "echo", 1, 2, config=specific(1))
    runtime.load("echo", '{"version_policy": {"specific": {"versions": [2]}}}')
    assert ready_versions(runtime, "echo") == [2]


def test_a_version_that_cannot_load_is_refused_with_its_reason_and_the_others_stay(
    runtime, repository
):
    publish(repository, "echo", 1, config=specific(1))
    runtime.load("echo")
    (repository / "echo" / "2").mkdir()
    (repository / "echo" / "2" / "model.onnx").write_bytes(b"broken, not a model")
    publish(repository, "echo", config=specific(1, 2))
    with pytest.raises(RuntimeRefused) as refusal:
        runtime.load("echo")
    assert refusal.value.status == 400
    assert "version 2 is at UNAVAILABLE state" in refusal.value.text
    assert ready_versions(runtime, "echo") == [1]
    states = {entry.version: entry for entry in runtime.index()}
    assert states[2].state == "UNAVAILABLE"
    assert states[2].reason


def test_a_config_that_cannot_be_read_is_refused(runtime, repository):
    publish(repository, "echo", 1, config="max_batch_size: what\n")
    with pytest.raises(RuntimeRefused, match="failed to poll from model repository"):
        runtime.load("echo")


def test_a_model_that_is_not_in_the_repository_is_refused(runtime):
    with pytest.raises(RuntimeRefused, match="failed to load 'nothing'"):
        runtime.load("nothing")


def test_an_unloaded_model_says_so_in_the_index(runtime, repository):
    both_loaded(runtime, repository)
    runtime.unload("echo")
    entries = [entry for entry in runtime.index() if entry.version is not None]
    assert not any(entry.ready for entry in entries)
    assert {entry.reason for entry in entries if entry.state == "UNAVAILABLE"} <= {"unloaded"}


def test_unloading_what_is_not_there_is_fine(runtime):
    runtime.unload("nothing")


def test_answers_with_the_version_that_was_asked(runtime, repository):
    both_loaded(runtime, repository)
    sent = np.arange(4, dtype=np.float32).reshape(1, 4)
    answer = runtime.infer("echo", [Tensor("INPUT0", "FP32", sent)], version=1, request_id="r1")
    assert (answer.model, answer.version, answer.request_id) == ("echo", 1, "r1")
    assert answer.outputs[0].array.tolist() == sent.tolist()


def test_counts_requests_by_version(runtime, repository):
    both_loaded(runtime, repository)
    for _ in range(3):
        runtime.infer("echo", [Tensor("INPUT0", "FP32", np.ones((1, 4), np.float32))], version=2)
    counts = {one.version: one.success_count for one in runtime.statistics("echo")}
    assert counts == {1: 0, 2: 3}
    samples = {
        sample.labels["version"]: sample.value
        for sample in parse_metrics(runtime.metrics_text())
        if sample.name == "nv_inference_request_success" and sample.labels["model"] == "echo"
    }
    assert samples["2"] == 3


def test_statistics_of_a_model_that_is_not_loaded_are_refused(runtime):
    with pytest.raises(RuntimeRefused):
        runtime.statistics("nothing")


def test_applies_a_traffic_table_and_shows_it(runtime, repository):
    both_loaded(runtime, repository)
    applied = runtime.traffic_put(table(3, (1, "stable", 0.9), (2, "canary", 0.1)))
    assert applied.generation == 3
    assert runtime.traffic_get("echo").to_wire() == applied.to_wire()
    assert [one.model for one in runtime.traffic_tables()] == ["echo"]


def test_the_same_table_twice_is_no_conflict(runtime, repository):
    both_loaded(runtime, repository)
    runtime.traffic_put(table(3, (1, "stable", 1.0)))
    assert runtime.traffic_put(table(3, (1, "stable", 1.0))).generation == 3


def test_an_older_generation_is_refused(runtime, repository):
    both_loaded(runtime, repository)
    runtime.traffic_put(table(3, (1, "stable", 1.0)))
    with pytest.raises(RuntimeRefused) as refusal:
        runtime.traffic_put(table(2, (2, "stable", 1.0)))
    assert refusal.value.status == 409
    assert runtime.traffic_get("echo").generation == 3


def test_the_same_generation_with_other_content_is_refused(runtime, repository):
    both_loaded(runtime, repository)
    runtime.traffic_put(table(3, (1, "stable", 1.0)))
    with pytest.raises(RuntimeRefused) as refusal:
        runtime.traffic_put(table(3, (2, "stable", 1.0)))
    assert refusal.value.status == 409


def test_an_arm_that_is_not_ready_is_refused(runtime, repository):
    both_loaded(runtime, repository)
    with pytest.raises(RuntimeRefused) as refusal:
        runtime.traffic_put(table(1, (1, "stable", 0.5), (7, "canary", 0.5)))
    assert refusal.value.status == 400


def test_shares_that_do_not_add_up_are_refused(runtime, repository):
    both_loaded(runtime, repository)
    with pytest.raises(RuntimeRefused) as refusal:
        runtime.traffic_put(table(1, (1, "stable", 0.5), (2, "canary", 0.1)))
    assert refusal.value.status == 400


def test_requests_without_a_version_follow_the_table(runtime, repository):
    both_loaded(runtime, repository)
    runtime.traffic_put(table(1, (1, "stable", 1.0)))
    answer = runtime.infer("echo", [Tensor("INPUT0", "FP32", np.ones((1, 4), np.float32))])
    assert answer.version == 1


def test_a_table_can_be_taken_away(runtime, repository):
    both_loaded(runtime, repository)
    runtime.traffic_put(table(1, (1, "stable", 1.0)))
    runtime.traffic_delete("echo", generation=2)
    assert runtime.traffic_get("echo") is None
    runtime.traffic_delete("echo", generation=2)


def test_no_table_is_none(runtime):
    assert runtime.traffic_get("nothing") is None
    assert runtime.traffic_tables() == []


def test_tells_its_own_statistics(runtime):
    body = runtime.switchyard_statistics()
    assert body["process"]["epoch"]
    assert body["models"] == []
