"""Instances where a host policy puts them: read from the threads of a server process."""

import os
import re
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.clients import Client
from tests.conformance.python_models import ONE_TO_ONE
from tests.conformance.python_world import PythonWorld, eventually
from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.onnx_models import mlp, write_model

pytestmark = pytest.mark.conformance
CORES = sorted(os.sched_getaffinity(0))
THREADS = 'parameters { key: "intra_op_thread_count" value { string_value: "3" } }'


def places(server: RuntimeProcess) -> Counter[str]:
    """How many threads may run on which processors."""
    found: Counter[str] = Counter()
    for status in Path(f"/proc/{server.process.pid}/task").glob("*/status"):
        match = re.search(r"Cpus_allowed_list:\s*(\S+)", status.read_text())
        found[match[1] if match else "?"] += 1
    return found


def ask(server: RuntimeProcess, model: str) -> None:
    client = Client(server, "grpc")
    assert client.ask(model, {"x": np.zeros((1, 784), np.float32)}).as_numpy("y").shape == (1, 10)
    client.close()


@pytest.mark.skipif(len(CORES) < 2, reason="one processor is no choice")
def test_threads_of_instances_and_of_their_pools_are_where_the_policy_says(tmp_path):
    first, last = str(CORES[0]), str(CORES[-1])
    write_model(tmp_path / "r", "kind", mlp(), config=THREADS + "instance_group { count: 1 }")
    named = 'instance_group { count: 1 host_policy: "mine" }'
    write_model(tmp_path / "r", "named", mlp(), config=THREADS + named)
    options = [f"--host-policy=cpu,cpu-cores={first}", f"--host-policy=mine,cpu-cores={last}"]
    with runtime(tmp_path / "r", tmp_path / "log", *options) as server:
        assert places(server)[first] == places(server)[last] == 0
        for model, where in (("kind", first), ("named", last)):
            assert server.call("POST", f"/v2/repository/models/{model}/load")[0] == 200
            ask(server, model)
            # The instance's own thread, and the two that ONNX Runtime has beside it.
            assert places(server)[where] == 3
        assert len(places(server)) == 3  # the rest of the server is where it was


def cores_of(pid: int) -> str:
    match = re.search(r"Cpus_allowed_list:\s*(\S+)", Path(f"/proc/{pid}/status").read_text())
    return match[1] if match else "?"


@pytest.mark.slow
@pytest.mark.skipif(len(CORES) < 2, reason="one processor is no choice")
@pytest.mark.parametrize("kind", ["python", "isolated"])
def test_a_process_that_takes_the_place_of_a_dead_one_is_where_the_policy_says(tmp_path, kind):
    where = str(CORES[-1])
    repository = tmp_path / "r"
    repository.mkdir()
    group = "instance_group { kind: KIND_CPU count: 1 }"
    if kind == "isolated":
        isolated = 'parameters { key: "ISOLATION" value { string_value: "process" } }'
        write_model(repository, "m", mlp(), config=isolated + group)
    with runtime(repository, tmp_path / "log", f"--host-policy=cpu,cpu-cores={where}") as server:
        world = PythonWorld(server, repository)
        if kind == "python":
            world.write("m", "def execute(self, requests): ...", f"{ONE_TO_ONE} {group}")
        assert world.load("m")[0] == 200
        (first,) = world.children()
        assert cores_of(first) == where
        os.kill(first, signal.SIGKILL)
        (second,) = eventually(lambda: [pid for pid in world.children() if pid != first])
        assert cores_of(second) == where


def test_without_a_policy_nothing_is_bound(tmp_path):
    write_model(tmp_path / "r", "m", mlp(), config=THREADS)
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=m") as server:
        ask(server, "m")
        assert len(places(server)) == 1


def test_a_node_binds_memory_and_processors(tmp_path):
    if not Path("/sys/devices/system/node/node0").exists():
        pytest.skip("no NUMA node is known here")
    write_model(tmp_path / "r", "m", mlp())
    option = "--host-policy=cpu,numa-node=0"
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=m", option) as server:
        ask(server, "m")
        maps = Path(f"/proc/{server.process.pid}/task").glob("*/numa_maps")
        # Where a container may not bind memory, the log has to say that it did not happen.
        assert "memory can not be bound to a node" in server.log or any(
            "bind:0" in text.read_text() for text in maps
        )


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("cpu,cpu-cores=9999", "cpu: this process may not use processor 9999"),
        ("cpu,numa-node=9999", "cpu: this machine has no NUMA node 9999"),
        ("cpu,color=red", "the settings are numa-node and cpu-cores"),
    ],
)
def test_what_this_machine_does_not_have_is_said_at_the_start(tmp_path, option, problem):
    (tmp_path / "r").mkdir()
    log = tmp_path / "log"
    with runtime(tmp_path / "r", log, f"--host-policy={option}", wait=False) as server:
        assert server.wait_exit() == 1
    assert f'Bad option: "--host-policy". {problem}' in log.read_text()
