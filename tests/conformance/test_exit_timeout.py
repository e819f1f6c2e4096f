"""The time limit of an exit holds, whatever hangs: an execution, an unload that waits for one, a load."""

import textwrap
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.python_world import HEADER, PythonWorld
from tests.conformance.runtime_process import find_ports, runtime

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
HANGS = (
    'backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: [1] } '
    'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [1] } '
    'parameters { key: "execute_delay_ms" value { string_value: "3600000" } }'
)
LOADS_FOR_EVER = """
def initialize(self, args):
    time.sleep(3600)
"""
SECOND = "--exit-timeout-secs=1"


def write_hanging(repository):
    (repository / "hangs/1").mkdir(parents=True)
    (repository / "hangs/config.pbtxt").write_text(HANGS)


class Caller:
    """A request in a thread, which never gets its answer."""

    def __init__(self, server) -> None:
        self.failures: list[InferenceServerException] = []
        self._server = server
        self._thread = threading.Thread(target=self._call)
        self._thread.start()
        server.wait_for(self._inflight, "a request in flight")

    def _inflight(self) -> bool:
        models = self._server.call("GET", "/v2/switchyard/statistics")[1]["models"]
        return any(entry["inflight"] for entry in models)

    def _call(self) -> None:
        with self._server.grpc_client() as client:
            tensor = grpcclient.InferInput("INPUT0", [1], "FP32")
            tensor.set_data_from_numpy(np.zeros(1, np.float32))
            try:
                client.infer("hangs", [tensor])
            except InferenceServerException as error:
                self.failures.append(error)

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("unloaded", [False, True], ids=["serving", "unloading"])
def test_an_execution_that_never_ends(tmp_path, unloaded):
    write_hanging(tmp_path / "r")
    with runtime(tmp_path / "r", tmp_path / "log", SECOND, "--load-model=hangs") as server:
        caller = Caller(server)
        if unloaded:
            with server.grpc_client() as client:
                client.unload_model("hangs")
                assert not client.is_model_ready("hangs")
        assert server.terminate() == 0
        caller.join()
        assert len(caller.failures) == 1
        assert "Model 'hangs' (version 1) has 1 in-flight inferences" in server.log
        assert "Exit timeout expired. Exiting immediately." in server.log


def test_a_load_that_never_ends(tmp_path):
    repository = tmp_path / "r"
    repository.mkdir()
    with runtime(repository, tmp_path / "log", SECOND) as server:
        world = PythonWorld(server, repository)
        world.write("endless", LOADS_FOR_EVER)
        with server.grpc_client() as client:
            loading = threading.Thread(target=_load, args=(client,))
            loading.start()

            def begun() -> bool:
                models = client.get_model_repository_index().models
                return [entry.state for entry in models] == ["LOADING"]

            server.wait_for(begun, "the load")
            assert server.terminate() == 0
            loading.join(20)
            assert not loading.is_alive()


def _load(client) -> None:
    with pytest.raises(InferenceServerException):
        client.load_model("endless")


def test_a_load_of_the_start_that_never_ends(tmp_path):
    repository = tmp_path / "r"
    repository.mkdir()
    source = f"{HEADER}class TritonPythonModel:\n{textwrap.indent(LOADS_FOR_EVER, '    ')}"
    write_python_model(repository, "endless", source=source, config=ONE_TO_ONE)
    with runtime(repository, tmp_path / "log", SECOND, mode="none", wait=False) as server:
        server.wait_for(lambda: find_ports(server), "the ports")
        assert not server.ready()
        assert server.terminate() == 0
