"""Start, exit and restart of the process, as an operator sees them."""

import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.runtime_process import ROOT, find_ports, runtime
from tests.onnx_models import add_constant, slow, write_model

pytestmark = pytest.mark.conformance
ZERO = np.zeros((1, 4), np.float32)


def ask_slow(client, module, iterations: int):
    tensor = module.InferInput("ITERATIONS", [1], "INT64")
    tensor.set_data_from_numpy(np.array([iterations], np.int64))
    return client.infer("slow", [tensor]).as_numpy("OUTPUT0")


def ask(server, model="m"):
    with server.http_client() as client:
        tensor = httpclient.InferInput("INPUT0", [1, 4], "FP32")
        tensor.set_data_from_numpy(ZERO)
        return client.infer(model, [tensor]).as_numpy("OUTPUT0")[0, 0]


def test_sigterm_finishes_what_was_accepted_and_exits_with_zero(tmp_path):
    write_model(tmp_path / "r", "slow", slow())
    with runtime(tmp_path / "r", tmp_path / "log", mode="none") as server:
        answers, failures = [], []

        def call(module, address):
            try:
                client = module.InferenceServerClient(address)
                answers.append(ask_slow(client, module, 4000))
            except Exception as error:  # noqa: BLE001  any failure is a finding
                failures.append(repr(error))

        threads = [
            threading.Thread(target=call, args=pair)
            for pair in [(httpclient, server.http), (grpcclient, server.grpc)] * 2
        ]
        for thread in threads:
            thread.start()

        def busy():
            models = server.call("GET", "/v2/switchyard/statistics")[1]["models"]
            return models and models[0]["inflight"] == 4

        server.wait_for(busy, "four requests in flight")
        assert server.terminate() == 0
        for thread in threads:
            thread.join(10)
        assert failures == []
        assert len(answers) == 4
        assert "Waiting for in-flight requests to complete." in server.log


def test_the_time_limit_of_an_exit_holds(tmp_path):
    write_model(tmp_path / "r", "slow", slow())
    options = ("--exit-timeout-secs=1",)
    with runtime(tmp_path / "r", tmp_path / "log", *options, mode="none") as server:
        failures = []

        def call():
            try:
                with server.grpc_client() as client:
                    ask_slow(client, grpcclient, 1_000_000)
            except InferenceServerException as error:
                failures.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        server.wait_for(
            lambda: server.call("GET", "/v2/switchyard/statistics")[1]["models"][0]["inflight"],
            "a request in flight",
        )
        assert server.terminate() == 0
        thread.join(10)
        assert len(failures) == 1
        assert "Model 'slow' (version 1) has 1 in-flight inferences" in server.log


def test_a_restarted_server_serves_what_it_served(tmp_path):
    repository = tmp_path / "r"
    options = (f"--switchyard-state-dir={tmp_path / 'state'}",)
    for version in (1, 2):
        write_model(repository, "m", add_constant(version), version=version)
    with runtime(repository, tmp_path / "log1", *options) as server:
        with server.grpc_client() as client:
            client.load_model("m", config='{"version_policy": {"all": {}}}')
            client.load_model(
                "made",
                config='{"backend": "onnxruntime"}',
                files={"file:1/model.onnx": add_constant(42).SerializeToString()},
            )
        arms = [{"model": "m", "version": 1, "role": "stable", "weight": 1.0}]
        body = {"generation": 3, "salt": "s", "arms": arms}
        assert server.call("PUT", "/v2/switchyard/traffic/m", body)[0] == 200
        assert (ask(server), ask(server, "made")) == (1, 42)
        server.process.kill()
        server.wait_exit()
    with runtime(repository, tmp_path / "log2", *options) as server:
        assert (ask(server), ask(server, "made")) == (1, 42)
        assert server.call("GET", "/v2/switchyard/traffic/m")[1]["generation"] == 3
        assert server.terminate() == 0


def test_a_model_that_does_not_load_ends_the_start_unless_told_otherwise(tmp_path):
    write_model(tmp_path / "r", "m", add_constant(1))
    write_model(tmp_path / "r", "broken", add_constant(1))
    (tmp_path / "r/broken/1/model.onnx").write_bytes(b"broken")
    with runtime(tmp_path / "r", tmp_path / "log", mode="none", wait=False) as server:
        assert server.wait_exit() == 1
        assert "error: creating server: Internal - failed to load all models" in server.log
    options = ("--exit-on-error=false", "--strict-readiness=false")
    with runtime(tmp_path / "r", tmp_path / "log", *options, mode="none") as server:
        assert ask(server) == 1
        with server.grpc_client() as client:
            assert client.is_server_live()


def test_strict_readiness_tells_of_a_failed_model(tmp_path):
    write_model(tmp_path / "r", "m", add_constant(1))
    (tmp_path / "r/m/1/model.onnx").write_bytes(b"broken")
    with runtime(tmp_path / "r", tmp_path / "log") as server, server.http_client() as client:
        assert client.is_server_ready()
        with pytest.raises(Exception, match="load failed for model 'm'"):
            client.load_model("m")
        assert client.is_server_live()
        assert not client.is_server_ready()
        write_model(tmp_path / "r", "m", add_constant(1))
        client.load_model("m")
        assert client.is_server_ready()


def test_while_models_are_loaded_at_start_none_is_ready(tmp_path):
    source = f"""
import pathlib, time
class TritonPythonModel:
    def initialize(self, args):
        while not pathlib.Path({str(tmp_path / "open")!r}).exists():
            time.sleep(0.01)
    def execute(self, requests):
        return []
"""
    write_python_model(tmp_path / "r", "waits", source=source, config=ONE_TO_ONE)
    write_model(tmp_path / "r", "m", add_constant(1))
    with runtime(tmp_path / "r", tmp_path / "log", mode="none", wait=False) as server:
        server.wait_for(lambda: find_ports(server), "the ports in the log")
        for path in ("waits", "m", "m/versions/1", "unknown"):
            found = server.call("GET", f"/v2/models/{path}/ready")
            assert found == (503, {"error": "Server not ready"})
        with server.grpc_client() as client:
            assert client.is_server_live()
            assert not client.is_server_ready()
            assert not client.is_model_ready("m")
        (tmp_path / "open").touch()
        server.wait_ready()
        assert server.call("GET", "/v2/models/m/ready") == (200, None)
        unknown = server.call("GET", "/v2/models/unknown/ready")
        assert unknown == (400, {"error": "Model version not ready"})


@pytest.mark.parametrize("name", ["missing", "*"])
def test_a_model_asked_for_at_start_must_be_there(tmp_path, name):
    write_model(tmp_path / "r", "m", add_constant(1))
    options = ("--load-model=m", f"--load-model={name}")
    with runtime(tmp_path / "r", tmp_path / "log", *options, wait=False) as server:
        assert server.wait_exit() == 1


def test_a_missing_repository_is_fatal_or_leaves_only_metadata(tmp_path):
    with runtime(tmp_path / "none", tmp_path / "log", wait=False) as server:
        assert server.wait_exit() == 1
    options = ("--exit-on-error=false", "--http-port=0")
    with runtime(tmp_path / "none", tmp_path / "log", *options, wait=False) as server:
        server.wait_for(lambda: "failed to stat file" in server.log, "the error")
        server.wait_for(lambda: "Started Metrics" in server.log, "the ports")

        find_ports(server)
        assert server.call("GET", "/v2/health/live")[0] == 400
        assert server.call("GET", "/v2/health/ready")[0] == 400
        assert server.call("GET", "/v2")[1]["name"] == "triton"


def test_a_port_in_use_is_named(tmp_path):
    (tmp_path / "r").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with runtime(tmp_path / "r", tmp_path / "log", f"--http-port={port}", wait=False) as server:
            assert server.wait_exit() == 1
            assert (
                f"failed to start HTTP service: Unavailable - Socket '127.0.0.1:{port}' already in use"
                in server.log
            )


def test_a_command_line_that_can_not_be_meant_ends_the_start(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "inference_runtime", "--nonsense"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 1
    assert 'Bad option: "--nonsense".' in result.stderr
    assert "--model-repository" in result.stderr


def test_poll_mode_follows_the_repository(tmp_path):
    (tmp_path / "r").mkdir()
    options = ("--repository-poll-secs=1",)
    with (
        runtime(tmp_path / "r", tmp_path / "log", *options, mode="poll") as server,
        server.http_client() as client,
    ):
        write_model(tmp_path / "r", "m", add_constant(1))
        server.wait_for(lambda: client.is_model_ready("m"), "the model")
        with pytest.raises(Exception, match="explicit model load / unload is not allowed"):
            client.load_model("m")
