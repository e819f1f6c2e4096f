"""Repositories in S3-compatible storage, beside directories, as an operator starts them; the store is moto's server."""

import shutil
import socket

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client, constant
from tests.conformance.runtime_process import find_ports, runtime
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_constant, write_model
from tests.s3_server import SECRETS, s3_server

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
ALL = "version_policy { all { } }"


@pytest.fixture
def s3(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        yield server


def upload(s3, path, name, constant, *, version=1, prefix="r", config=ALL):
    write_model(path / "made", name, add_constant(constant), version=version, config=config)
    s3.upload(path / "made" / name, f"{prefix}/{name}")
    shutil.rmtree(path / "made")


def counted(client, name, version) -> int:
    statistics = client.names(client.get_inference_statistics(name, version))
    return int(statistics["model_stats"][0].get("inference_count", 0))


def copies(directory) -> list[str]:
    return sorted(path.name for path in directory.glob("*/*")) if directory.exists() else []


def test_models_in_s3_and_in_a_directory_are_loaded_reloaded_in_part_and_unloaded(s3, tmp_path):
    upload(s3, tmp_path, "far", 1)
    upload(s3, tmp_path, "far", 2, version=2)
    write_model(tmp_path / "r", "near", add_constant(7))
    state = tmp_path / "state"
    options = (f"--model-repository={s3.url('r')}", f"--switchyard-state-dir={state}")
    with runtime(tmp_path / "r", tmp_path / "log", *options) as server:
        client = Client(server, "grpc")
        index = client.names(client.get_model_repository_index())["models"]
        assert index == [{"name": "far"}, {"name": "near"}]
        assert copies(state / "model-copies") == []
        client.load_model("far")
        client.load_model("near")
        assert [
            constant(client, "far", "1"),
            constant(client, "far"),
            constant(client, "near"),
        ] == [
            1,
            2,
            7,
        ]
        assert copies(state / "model-copies") == ["far"]
        # Only the version that changed is loaded anew.
        upload(s3, tmp_path, "far", 20, version=2)
        client.load_model("far")
        assert [constant(client, "far", "1"), constant(client, "far")] == [1, 20]
        assert counted(client, "far", "1") == 2
        client.unload_model("far")
        server.wait_for(lambda: copies(state / "model-copies") == [], "the copies are removed")
        assert constant(client, "near") == 7
        client.load_model("far")
        client.close()
        assert server.terminate() == 0
        assert copies(state / "model-copies") == []
    with runtime(tmp_path / "r", tmp_path / "log2", *options) as server:
        client = Client(server, "http")
        assert constant(client, "far") == 20
        client.close()


def test_an_ensemble_in_s3_loads_the_models_it_needs(s3, tmp_path):
    upload(s3, tmp_path, "far", 1)
    write_model(tmp_path / "r", "near", add_constant(10))
    steps = step("far", {"INPUT0": "IN"}, {"OUTPUT0": "MID"}) + step(
        "near", {"INPUT0": "MID"}, {"OUTPUT0": "OUT"}
    )
    write_ensemble(tmp_path / "made", "chain", steps)
    s3.put("r/chain/config.pbtxt", (tmp_path / "made/chain/config.pbtxt").read_bytes())
    s3.put("r/chain/1/")  # how consoles make an empty directory
    options = (f"--model-repository={s3.url('r')}", "--load-model=chain")
    with runtime(tmp_path / "r", tmp_path / "log", *options) as server:
        client = Client(server, "grpc")
        result = client.ask("chain", {"IN": np.zeros((1, 4), np.float32)})
        assert float(result.as_numpy("OUT")[0, 0]) == 11
        client.close()


def test_polling_follows_the_store_and_an_outage_unloads_nothing(s3, tmp_path):
    upload(s3, tmp_path, "far", 1)
    options = ("--repository-poll-secs=1",)
    with runtime(s3.url("r"), tmp_path / "log", *options, mode="poll") as server:
        client = Client(server, "http")
        assert constant(client, "far") == 1
        upload(s3, tmp_path, "late", 5)
        server.wait_for(lambda: client.is_model_ready("late"), "the new model")
        s3.delete("r/late/")
        server.wait_for(lambda: not client.is_model_ready("late"), "the deleted model")
        s3.stop()
        server.wait_for(lambda: "stay as they are until it answers" in server.log, "the outage")
        before = server.log.count("can not be read")
        server.wait_for(lambda: constant(client, "far") == 1, "an answer")
        index = client.get_model_repository_index()
        assert [entry["state"] for entry in index if entry["name"] == "far"] == ["READY"]
        assert server.log.count("until it answers") == 1
        assert before >= 1
        assert client.is_server_ready()
        client.close()


def test_a_load_from_a_store_that_does_not_answer_says_so_and_what_serves_goes_on(s3, tmp_path):
    upload(s3, tmp_path, "far", 1)
    with runtime(s3.url("r"), tmp_path / "log", "--load-model=far") as server:
        client = Client(server, "grpc")
        s3.stop()
        with pytest.raises(InferenceServerException) as caught:
            client.load_model("far")
        assert "failed to load 'far', failed to poll from model repository" in str(caught.value)
        assert "can not be read" in str(caught.value)
        assert constant(client, "far") == 1
        client.close()


def test_a_store_that_can_not_be_reached_at_start_ends_it(tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with runtime("s3://127.0.0.1:9/b/r", tmp_path / "log", wait=False) as server:
        assert server.wait_exit() == 1
        assert "error: creating server: Internal - model repository s3://" in server.log
    with runtime("gs://b/r", tmp_path / "log2", wait=False) as server:
        assert server.wait_exit() == 1
        assert "needs a Python package that is not installed" in server.log


def test_a_store_that_takes_calls_and_never_answers_keeps_no_exit_waiting(tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"s3://127.0.0.1:{silent.getsockname()[1]}/b/r"
        with runtime(url, tmp_path / "log", wait=False) as server:
            server.wait_for(lambda: find_ports(server), "the ports")
            assert not server.ready()
            asked, _ = silent.accept()
            with asked:
                assert server.terminate() == 0
