"""Section 9.11 of the compliance checklist: control modes, several repositories, many loads at once, readiness."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client, constant
from tests.conformance.python_models import ONE_TO_ONE
from tests.conformance.python_world import PythonWorld
from tests.conformance.runtime_process import find_ports, runtime
from tests.onnx_models import add_constant, write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]


def refused(call, *args) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        call(*args)
    return caught.value


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_check_163_only_explicit_mode_takes_loads(tmp_path, mode):
    write_model(tmp_path / "r", "m", add_constant(1))
    text = "explicit model load / unload is not allowed if polling is enabled"
    with runtime(tmp_path / "r", tmp_path / "log", mode=mode) as server:
        for kind, status in (("http", "503"), ("grpc", "StatusCode.UNAVAILABLE")):
            client = Client(server, kind)
            for call in (client.load_model, client.unload_model):
                error = refused(call, "m")
                assert error.status() == status
                assert text in str(error)
            assert client.is_model_ready("m")
            client.close()


def test_check_173_a_name_in_two_repositories(tmp_path):
    for root in ("one", "two"):
        write_model(tmp_path / root, "m", add_constant(1))
    write_model(tmp_path / "two", "n", add_constant(2))
    options = (f"--model-repository={tmp_path / 'two'}",)
    with runtime(tmp_path / "one", tmp_path / "log", *options) as server:
        for kind in ("http", "grpc"):
            client = Client(server, kind)
            index = client.names(client.get_model_repository_index())
            entries = index if client.over_http else index["models"]
            assert entries[0] == {
                "name": "m",
                "state": "UNAVAILABLE",
                "reason": "model appears in two or more repositories",
            }
            assert "failed to poll from model repository" in str(refused(client.load_model, "m"))
            client.load_model("n")
            assert constant(client, "n") == 2
            client.close()


def test_check_174_poll_mode_follows_the_repository(tmp_path):
    config = "max_batch_size: 2 version_policy { all { } }"
    repository = tmp_path / "r"
    repository.mkdir()
    options = ("--repository-poll-secs=1",)
    with runtime(repository, tmp_path / "log", *options, mode="poll") as server:
        client = Client(server, "grpc")
        write_model(tmp_path / "made", "m", add_constant(1), config=config)
        write_model(tmp_path / "made", "m", add_constant(2), version=2)
        (tmp_path / "made/m").rename(repository / "m")
        server.wait_for(lambda: client.is_model_ready("m"), "the added model")
        assert constant(client, "m", "1") == 1
        shutil.rmtree(repository / "m/1")
        server.wait_for(lambda: not client.is_model_ready("m", "1"), "the removed version")
        error = refused(constant, client, "m", "1")
        assert "Request for unknown model: 'm' version 1 is not at ready state" in str(error)
        assert constant(client, "m") == 2
        (repository / "m/config.pbtxt").unlink()
        server.wait_for(
            lambda: client.get_model_config("m").config.max_batch_size == 4, "the defaults"
        )
        shutil.rmtree(repository / "m")
        server.wait_for(lambda: not client.is_model_ready("m"), "the removed model")
        assert "has no available versions" in str(refused(constant, client, "m"))
        client.close()


# Each waits for the other: they can only be loaded side by side.
MEETING = """
def initialize(self, args):
    here = os.path.dirname(args["model_repository"])
    open(os.path.join(here, args["model_name"] + ".here"), "w").close()
    other = {"left": "right", "right": "left"}[args["model_name"]]
    deadline = time.monotonic() + 20
    while not os.path.exists(os.path.join(here, other + ".here")):
        if time.monotonic() > deadline:
            raise pb_utils.TritonModelException("the other one does not come")
        time.sleep(0.01)
"""


def test_check_178_models_are_loaded_side_by_side(tmp_path):
    repository = tmp_path / "r"
    repository.mkdir()
    with runtime(repository, tmp_path / "log") as server:
        world = PythonWorld(server, repository)
        for name in ("left", "right"):
            world.write(name, MEETING)
        with ThreadPoolExecutor(2) as pool:
            assert [status for status, _ in pool.map(world.load, ("left", "right"))] == [200, 200]


HANGS_FOR_EVER = """
def initialize(self, args):
    while True:
        time.sleep(0.1)
"""
COMPLETES_FOR_EVER = """
@staticmethod
def auto_complete_config(config):
    while True:
        time.sleep(0.1)
"""
READY = """
def execute(self, requests):
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
        for request in requests
    ]
"""


def test_models_that_hang_while_they_load_keep_no_other_from_loading(tmp_path):
    repository = tmp_path / "r"
    write_model(repository, "m", add_constant(3))
    with runtime(repository, tmp_path / "log", "--exit-timeout-secs=1") as server:
        world = PythonWorld(server, repository)
        hanging = {f"h{number}": HANGS_FOR_EVER for number in range(4)}
        hanging |= {f"c{number}": COMPLETES_FOR_EVER for number in range(2)}
        for name, body in hanging.items():
            world.write(name, body)
        world.write("echo", READY)
        threads = [threading.Thread(target=_load_anyhow, args=(server, name)) for name in hanging]
        for thread in threads:
            thread.start()
        client = Client(server, "grpc")
        server.wait_for(lambda: len(world.children()) >= 4, "the processes that hang")
        client.load_model("m")
        assert constant(client, "m") == 3
        assert world.load("echo")[0] == 200
        assert world.out("echo", 5) == 5
        client.unload_model("m")
        assert world.load("m")[0] == 200
        client.close()
        assert server.terminate() == 0
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()


def test_polling_goes_on_beside_a_model_that_hangs_while_it_loads(tmp_path):
    repository = tmp_path / "r"
    repository.mkdir()
    options = ("--repository-poll-secs=1", "--exit-timeout-secs=1")
    with runtime(repository, tmp_path / "log", *options, mode="poll") as server:
        world = PythonWorld(server, tmp_path / "made")
        world.write("hangs", HANGS_FOR_EVER)
        (tmp_path / "made/hangs").rename(repository / "hangs")
        server.wait_for(world.children, "the process that hangs")
        client = Client(server, "grpc")
        write_model(tmp_path / "made", "m", add_constant(3))
        (tmp_path / "made/m").rename(repository / "m")
        server.wait_for(lambda: client.is_model_ready("m"), "the added model")
        shutil.rmtree(repository / "m")
        server.wait_for(lambda: not client.is_model_ready("m"), "the removed model")
        client.close()
        assert server.terminate() == 0


def _load_anyhow(server, name: str) -> None:
    """It ends with the server."""
    client = Client(server, "grpc")
    with pytest.raises(InferenceServerException):
        client.load_model(name)
    client.close()


def test_check_178_many_loads_and_unloads_at_once_leave_a_server_that_serves(tmp_path):
    names = [f"m{number}" for number in range(4)]
    for number, name in enumerate(names):
        write_model(tmp_path / "r", name, add_constant(number))
    with runtime(tmp_path / "r", tmp_path / "log") as server:

        def work(seed: int) -> list[str]:
            """What nobody should ever see; loads and unloads of one model may meet in any order."""
            client = Client(server, ("http", "grpc")[seed % 2])
            random = Random(seed)
            unexpected = []
            for _ in range(12):
                name = random.choice(names)
                call = random.choice([client.load_model, client.unload_model])
                try:
                    call(name)
                    if random.random() < 0.3:
                        constant(client, name)
                except InferenceServerException as error:
                    if "Request for unknown model" not in str(error):
                        unexpected.append(str(error))
            client.close()
            return unexpected

        with ThreadPoolExecutor(32) as pool:
            assert [text for found in pool.map(work, range(32)) for text in found] == []
        client = Client(server, "grpc")
        for number, name in enumerate(names):
            client.load_model(name)
            assert constant(client, name) == number
        server.wait_for(server.ready, "readiness")
        client.close()
        assert server.terminate() == 0


def test_check_179_a_failed_model_and_readiness(tmp_path):
    write_model(tmp_path / "r", "good", add_constant(1))
    write_model(tmp_path / "r", "bad", add_constant(1))
    (tmp_path / "r/bad/1/model.onnx").write_bytes(b"broken")
    stay = "--exit-on-error=false"
    with runtime(tmp_path / "r", tmp_path / "log", stay, mode="none", wait=False) as server:
        server.wait_for(lambda: find_ports(server), "the ports")
        server.wait_for(lambda: "| bad | 1 | UNAVAILABLE |" in server.log, "the table of models")
        for kind in ("http", "grpc"):
            client = Client(server, kind)
            assert client.is_server_live()
            assert not client.is_server_ready()
            assert constant(client, "good") == 1
            client.close()
    options = (stay, "--strict-readiness=false")
    with runtime(tmp_path / "r", tmp_path / "log2", *options, mode="none") as server:
        assert server.ready()
    with runtime(tmp_path / "r", tmp_path / "log3", mode="none", wait=False) as server:
        assert server.wait_exit() == 1
        assert "error: creating server: Internal - failed to load all models" in server.log


COUNTING = """
def initialize(self, args):
    self.path = os.path.join(os.path.dirname(args["model_repository"]), "lives")
    self.tell("begun")

def tell(self, what):
    with open(self.path, "a") as file:
        file.write(what + "\\n")

def execute(self, requests):
    return [
        pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
        )
        for request in requests
    ]

def finalize(self):
    self.tell("ended")
"""


def test_check_176_processes_of_a_model_are_kept_when_their_number_changes(tmp_path, monkeypatch):
    # As in production: nothing tells Python not to write compiled files beside the model.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    repository = tmp_path / "r"
    repository.mkdir()
    with runtime(repository, tmp_path / "log") as server:
        world = PythonWorld(server, repository)
        lives = tmp_path / "r/lives"

        def counts() -> tuple[int, int]:
            text = lives.read_text()
            return text.count("begun"), text.count("ended")

        def write(count: int) -> None:
            config = ONE_TO_ONE + f"instance_group {{ count: {count} kind: KIND_CPU }}"
            (repository / "m/config.pbtxt").write_text(config)

        world.write("m", COUNTING)
        write(1)
        assert world.load("m")[0] == 200
        ended = threading.Event()

        def ask() -> set[int]:
            statuses = set()
            while not ended.is_set():
                statuses.add(world.infer("m", 3)[0])
            return statuses

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            try:
                for count, begun, gone in ((3, 3, 0), (1, 3, 2), (2, 4, 2)):
                    write(count)
                    assert world.load("m")[0] == 200
                    server.wait_for(
                        lambda wanted=(begun, gone): counts() == wanted, f"the change to {count}"
                    )
            finally:
                ended.set()
            assert [future.result() for future in asking] == [{200}] * 4
