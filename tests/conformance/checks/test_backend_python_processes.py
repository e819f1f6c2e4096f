"""Section 7.1 of backends-and-tools.md: the Python backend, checks 47 to 52: environments, processes, memory."""

import io
import os
import signal
import struct
import sys
import tarfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.python_world import PythonWorld, eventually
from tests.conformance.runtime_process import runtime

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

_TELL_PID = """
    value = pb_utils.Tensor("OUT", np.array([os.getpid()], np.int32))
    return [pb_utils.InferenceResponse([value]) for _ in requests]
"""
PID = f"""
def execute(self, requests):
    time.sleep(0.05)
{_TELL_PID}"""
HANGS_ON_9 = f"""
def execute(self, requests):
    while requests[0].inputs()[0].as_numpy()[0] == 9:
        time.sleep(0.1)
{_TELL_PID}"""

SEGFAULTS_ON_9 = f"""
def execute(self, requests):
    import ctypes
    if requests[0].inputs()[0].as_numpy()[0] == 9:
        ctypes.string_at(0)
{_TELL_PID}"""


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


@pytest.fixture(scope="module")
def options():
    return (
        "--load-model=script",
        "--backend-config=python,unload-timeout-seconds=2",
        "--backend-config=python,finalize-timeout-seconds=1",
        "--backend-config=python,stub-timeout-seconds=5",
    )


@pytest.fixture(scope="module")
def world(world):
    yield world
    eventually(
        lambda: "Z" not in world.children().values()
    )  # one that has just ended is one for a moment


def environment_archive(path: Path, *extra: tuple[str, str]) -> Path:
    """This very interpreter, as an environment that somebody packed."""
    interpreter = f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{Path(np.__file__).parents[1]}" exec {sys.executable} "$@"\n'
    members = [("bin/activate", "# nothing\n"), ("bin/python", interpreter), *extra]
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_backend_047_an_archive_that_leads_out_is_refused(world, tmp_path):
    for name, entry in (("upwards", "../x"), ("absolute", "/tmp/x")):
        archive = environment_archive(tmp_path / f"{name}.tar.gz", (entry, "x"))
        world.write(name, PID, f"{ONE_TO_ONE} {parameter('EXECUTION_ENV_PATH', archive)}")
        assert "leads out of it" in world.refusal(name)


def test_backend_047_an_environment_needs_its_activate_script(world, tmp_path):
    directory = tmp_path / "environment"
    directory.mkdir()
    world.write("inactive", PID, f"{ONE_TO_ONE} {parameter('EXECUTION_ENV_PATH', directory)}")
    assert (
        f"Path {directory}/bin/activate does not exist. The Python environment should contain an "
        "'activate' script."
    ) in world.refusal("inactive")


def test_an_environment_is_unpacked_once_and_removed_with_its_last_user(world):
    directory = world.write(
        "packed",
        """
        def execute(self, requests):
            value = pb_utils.Tensor("OUT", np.array([hash(os.environ["CONDA_PREFIX"]) % 1000], np.int32))
            return [pb_utils.InferenceResponse([value]) for _ in requests]
        """,
        f"{ONE_TO_ONE} instance_group {{ count: 2 }} "
        + parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/environment.tar.gz"),
    )
    environment_archive(directory / "environment.tar.gz")
    before = environments()
    status, answer = world.load("packed")
    assert status == 200, answer
    assert len(environments() - before) == 1
    assert world.infer("packed")[0] == 200
    world.unload("packed")
    eventually(lambda: environments() == before)


def environments():
    return set(Path("/tmp").glob("python_env_*"))


def test_backend_048_every_instance_is_a_process(world):
    world.serve("three", PID, f"{ONE_TO_ONE} instance_group {{ count: 3 }}")
    answers = world.together("three", [1] * 12)
    assert len({answer["outputs"][0]["data"][0] for _, answer in answers}) == 3


def test_backend_049_a_killed_process_is_replaced(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    with runtime(repository, tmp_path / "log") as server:
        world = PythonWorld(server, repository)
        world.serve("mortal", HANGS_ON_9)
        pid = world.out("mortal")
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(world.infer, "mortal", 9)
            time.sleep(0.3)
            killed_at = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            status, answer = hanging.result()
        assert time.monotonic() - killed_at < 2
        assert status == 500
        assert answer["error"].startswith(
            "Stub process 'mortal_0' is not healthy. It ended with signal 9 (Killed)."
        )
        assert world.ready("mortal") == 400
        assert not server.ready()
        eventually(lambda: world.ready("mortal") == 200)
        assert server.ready()
        assert world.out("mortal") != pid
        assert pid not in world.children()
        assert (
            'nv_python_stub_restarts_total{instance="mortal_0",model="mortal",version="1"} 1'
            in world.metrics()
        )


def test_a_segfault_costs_its_own_request_only_and_readiness_says_so(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    with runtime(repository, tmp_path / "log") as server:
        world = PythonWorld(server, repository)
        world.serve("native", SEGFAULTS_ON_9)
        world.serve("calm", PID)
        calm = world.out("calm")
        status, answer = world.infer("native", 9)
        assert status == 500
        assert "It ended with signal 11 (Segmentation fault)." in answer["error"]
        assert world.ready("native") == 400
        assert not server.ready()
        assert world.ready("calm") == 200
        assert world.out("calm") == calm
        eventually(lambda: world.ready("native") == 200)
        assert server.ready()
        assert world.out("native") > 0


def test_a_replacement_that_hangs_goes_with_its_model(world, tmp_path):
    world.write(
        "stays_down",
        f"""
        def initialize(self, args):
            marks = {str(tmp_path)!r}
            while os.path.exists(marks + "/once"):
                open(marks + "/again", "w").close()
                time.sleep(0.1)
            open(marks + "/once", "w").close()
        """
        + PID.replace("\n", "\n        "),
    )
    assert world.load("stays_down")[0] == 200
    pid = world.out("stays_down")
    others = set(world.children()) - {pid}
    os.kill(pid, signal.SIGKILL)
    eventually((tmp_path / "again").exists)
    assert world.ready("stays_down") == 400
    assert len(set(world.children()) - others) == 1
    world.unload("stays_down")
    eventually(lambda: not set(world.children()) - others)


def test_a_dead_instance_gets_no_requests_while_another_lives(world):
    world.serve("twins", PID, f"{ONE_TO_ONE} instance_group {{ count: 2 }}")
    answers = world.together("twins", [1] * 8)
    first, second = {answer["outputs"][0]["data"][0] for _, answer in answers}
    os.kill(first, signal.SIGKILL)
    eventually(lambda: first not in world.children())
    assert world.ready("twins") == 200
    assert {world.out("twins") for _ in range(4)} == {second}


SUMS = """
sums = {}

def execute(self, requests):
    return [self.answered(request) for request in requests]

def answered(self, request):
    value = int(request.inputs()[0].as_numpy()[0])
    if value == 9:
        os.kill(os.getpid(), 9)
    id_ = request.correlation_id()
    started = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
    self.sums[id_] = value + (0 if started else self.sums.get(id_, 0))
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.sums[id_]], np.int32))])
"""


def test_sequences_end_with_the_process_that_knew_them(world):
    idle = "max_sequence_idle_microseconds: 600000000"
    strategy = "oldest { max_candidate_sequences: 4 }"
    world.serve("sums", SUMS, f"{ONE_TO_ONE} sequence_batching {{ {strategy} {idle} }}")

    def step(id_, value, flags=""):
        start, end = "s" in flags, "e" in flags
        parameters = {"sequence_id": id_, "sequence_start": start, "sequence_end": end}
        status, answer = world.infer("sums", value, parameters=parameters)
        return answer["outputs"][0]["data"][0] if status == 200 else (status, answer["error"])

    assert [step(1, 3, "s"), step(2, 5, "s"), step(1, 4)] == [3, 5, 7]
    assert step(3, 9, "s")[0] == 500
    assert world.ready("sums") == 400
    eventually(lambda: world.ready("sums") == 200)
    for id_ in (1, 2, 3):
        text = f"inference request for sequence {id_} to model 'sums' must specify the START flag"
        status, error = step(id_, 1)
        assert status == 400
        assert error.startswith(text)
    assert [step(1, 2, "s"), step(1, 3, "e")] == [2, 5]
    world.unload("sums")


def test_a_model_that_dies_while_it_starts_says_how(world):
    world.write("dies_early", "def initialize(self, args):\n    os.kill(os.getpid(), 9)\n")
    assert "It ended with signal 9 (Killed)." in world.refusal("dies_early")


def test_a_model_that_gives_no_sign_of_life_does_not_load(world):
    # A regular expression holds the interpreter's lock, so that no other thread of the process runs.
    world.write(
        "stunned",
        """
        def initialize(self, args):
            import re
            re.match("(a+)+$", "a" * 64 + "b")
        """,
    )
    assert "gave no sign of life for 5 s" in world.refusal("stunned")


CHECKED = """
checks = 0

def is_ready(self):
    self.checks += 1
    {check}

def execute(self, requests):
    value = pb_utils.Tensor("OUT", np.array([self.checks], np.int32))
    return [pb_utils.InferenceResponse([value]) for _ in requests]
"""


def test_backend_050_a_check_answers_yes_or_no(world):
    world.serve("sure", CHECKED.format(check="return 1"))
    status, answer = world.server.call("GET", "/v2/models/sure/ready")
    assert status == 500
    assert answer["error"] == "is_ready() must return a boolean value"
    world.unload("sure")


def test_backend_050_a_check_that_takes_too_long_is_no(world):
    world.serve("slow_check", CHECKED.format(check="time.sleep(10); return True"))
    began = time.monotonic()
    status, answer = world.server.call("GET", "/v2/models/slow_check/ready")
    assert 4.9 < time.monotonic() - began < 8
    assert status == 503
    assert answer["error"] == "Timed out waiting for user-defined is_ready() response"
    status, answer = world.server.call("GET", "/v2/models/slow_check/ready")
    assert status in (200, 503)
    world.unload("slow_check")


def test_backend_050_many_who_ask_at_once_are_one_question(world):
    world.serve("asked", CHECKED.format(check="time.sleep(0.5); return True"))
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda _: world.ready("asked"), range(20)))
    assert statuses == [200] * 20
    assert world.out("asked") == 1


def test_check_017_a_model_that_says_no_is_not_ready_and_still_answers(world):
    world.serve("shy", CHECKED.format(check="return False"))
    try:
        with world.server.http_client() as client:
            assert not client.is_model_ready("shy")
            assert not client.is_server_ready()
        with world.server.grpc_client() as client:
            assert not client.is_model_ready("shy")
            assert not client.is_server_ready()
        status, answer = world.server.call("GET", "/v2/models/shy/ready")
        assert status == 400
        assert answer["error"] == "Model 'shy_0' is not ready (user-defined check failed)."
        assert world.infer("shy")[0] == 200
    finally:
        world.unload("shy")


def test_a_coroutine_may_check(world):
    world.serve(
        "async_check",
        """
        async def is_ready(self):
            import asyncio
            await asyncio.sleep(0.01)
            return True

        def execute(self, requests):
            return []
        """,
    )
    assert world.ready("async_check") == 200


def memory_of(pid):
    """Resident bytes of a process, and how much of that is memory it shares with the server."""
    resident = shared = 0
    in_arena = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if " " in name:  # the head of a mapping
            in_arena = "memfd:" in line
        elif name == "Rss":
            size = int(rest.split()[0]) * 1024
            resident += size
            shared += size if in_arena else 0
    return resident, shared


def test_backend_051_memory_stays_where_it_is_over_many_responses(world):
    write_python_model(world.repository, "repeat")
    assert world.load("repeat")[0] == 200
    before = set(world.children())
    world.unload("repeat")
    world.write(
        "streamer",
        """
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                array = np.zeros(20_000, np.float32)
                for value in range(int(request.inputs()[0].as_numpy()[0])):
                    array[0] = value
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
                sender.send(flags=1)
        """,
        """
        input { name: "IN" data_type: TYPE_INT32 dims: [1] }
        output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
        model_transaction_policy { decoupled: True }
        """,
    )
    assert world.load("streamer")[0] == 200
    (pid,) = [each for each in world.children() if "stub" in cmdline(each) and each not in before]
    for _ in range(5):
        stream(world, 500)
    resident, shared = memory_of(pid)
    for _ in range(20):
        stream(world, 500)
    after, shared_after = memory_of(pid)
    assert after - shared_after < 1.05 * (resident - shared) + (1 << 20)
    assert shared_after < 1.05 * shared + 40 * 80_000
    world.unload("streamer")


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def stream(world, count):
    """Over HTTP, whose client is fast enough to read all of it."""
    url = f"http://{world.server.http}/v2/models/streamer/generate_stream"
    request = urllib.request.Request(url, data=b'{"IN": %d}' % count, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        events = [line for line in answer if line.startswith(b"data:")]
    assert len(events) == count


def test_backend_052_a_crashed_server_leaves_nothing_behind(tmp_path):
    repository = tmp_path / "repository"
    write_python_model(repository, "script")
    before = set(Path("/dev/shm").iterdir())
    with runtime(repository, tmp_path / "log", "--load-model=script") as server:
        world = PythonWorld(server, repository)
        pid = world.run("import os; result = os.getpid()")
        assert pid in world.children()
        os.kill(server.process.pid, signal.SIGKILL)
        server.wait_exit()
        eventually(lambda: not Path(f"/proc/{pid}").exists(), 5)
    assert {
        each for each in set(Path("/dev/shm").iterdir()) - before if "triton" in each.name
    } == set()


def test_a_model_that_holds_the_interpreter_dies_with_its_server_too(tmp_path):
    repository = tmp_path / "repository"
    write_python_model(repository, "script")
    with runtime(repository, tmp_path / "log", "--load-model=script") as server:
        world = PythonWorld(server, repository)
        pid = world.run("import os; result = os.getpid()")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(world.run_raw, 'import re; re.match("(a+)+$", "a" * 64 + "b"); result = 1')
            time.sleep(0.5)
            os.kill(server.process.pid, signal.SIGKILL)
            server.wait_exit()
            eventually(lambda: not Path(f"/proc/{pid}").exists(), 5)


def test_an_execution_that_does_not_end_does_not_keep_its_version(world):
    world.serve("hung", HANGS_ON_9)
    pid = world.out("hung")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(world.infer, "hung", 9)
        time.sleep(0.3)
        world.unload("hung")
        status, answer = hanging.result()
    assert (status, answer["error"]) == (500, "Stub process 'hung_0' is not healthy.")
    eventually(lambda: pid not in world.children())


def test_an_execution_that_does_not_end_does_not_keep_the_server(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    with runtime(repository, tmp_path / "log", "--exit-timeout-secs=1") as server:
        world = PythonWorld(server, repository)
        world.serve("hung", HANGS_ON_9)
        pid = world.out("hung")
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(world.infer, "hung", 9)
            time.sleep(0.3)
            assert server.terminate() == 0
            eventually(lambda: not Path(f"/proc/{pid}").exists(), 5)
            assert isinstance(hanging.exception(), OSError)


def test_finalize_is_called_and_has_its_time_limit(world, tmp_path):
    for name, wait in (("ends_well", 0), ("ends_late", 30)):
        world.serve(
            name,
            f"""
            def finalize(self):
                open("{tmp_path}/{name}", "w").write("finalized")
                time.sleep({wait})

            def execute(self, requests):
                return []
            """,
        )
        count = len(world.children())
        world.unload(name)
        eventually(lambda count=count: len(world.children()) == count - 1, 10)
        assert (tmp_path / name).read_text() == "finalized"
    assert "'ends_late_0' did not finalize within 1 s" in world.server.log


def test_nothing_of_the_server_is_open_in_a_models_process(world):
    targets = world.run(
        """
        import os
        result = []
        for name in os.listdir("/proc/self/fd"):
            try:
                result.append(os.readlink("/proc/self/fd/" + name))
            except OSError:
                pass
        """
    )
    # The two channels, and whatever the server's output is.
    assert len([each for each in targets if each.startswith("socket:")]) == 2
    assert len([each for each in targets if each.startswith("pipe:")]) == 1
    assert [each for each in targets if "eventpoll" in each] == []
    assert "SWITCHYARD_HOME" not in world.run("import os; result = list(os.environ)")


def test_descriptors_do_not_add_up(world):
    def descriptors():
        return len(list(Path(f"/proc/{world.server.process.pid}/fd").iterdir()))

    world.write("cycled", PID)

    def cycle():
        assert world.load("cycled")[0] == 200
        pid = world.out("cycled")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: pid not in world.children() and world.ready("cycled") == 200)
        before = world.children()
        world.unload("cycled")
        eventually(lambda: len(world.children()) == len(before) - 1)

    cycle()
    eventually(lambda: descriptors() < 200)
    before = descriptors()
    for _ in range(4):
        cycle()
    eventually(lambda: descriptors() <= before + 2)


SPEAKS_OUT_OF_TURN = """
def execute(self, requests):
    sockets = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                sockets.append(int(name))
        except OSError:
            pass
    case = int(requests[0].inputs()[0].as_numpy()[0])
    if case:
        for descriptor in sockets:
            os.write(descriptor, {case!r}[case - 1])
        time.sleep(30)
    value = pb_utils.Tensor("OUT", np.array([os.getpid()], np.int32))
    return [pb_utils.InferenceResponse([value]) for _ in requests]
"""


def test_what_is_no_frame_ends_its_process_and_nothing_else(world):
    def framed(kind, text):
        return struct.pack("<BxxxIQ", kind, len(text), 0) + text

    cases = [
        b"\xff" * 64,
        struct.pack("<BxxxIQ", 13, 1 << 31, 1 << 60),
        framed(13, b"no json"),
        framed(13, b'{"answers":[[["OUT","INT32",[1],[-4096,4]]],[]],"free":[]}'),
        framed(13, b'{"answers":[[["OUT","INT32",[1],9]]],"free":["x"]}'),
        framed(20, b'{"id":"x"}'),
        framed(21, b"[]"),
    ]
    world.serve("rude", SPEAKS_OUT_OF_TURN.replace("{case!r}", repr(cases)))
    pid = world.out("rude", 0)
    for case in range(1, 5):  # not as often as would have the instance given up
        status, answer = world.infer("rude", case)
        assert status == 500
        assert "Stub process 'rude_0'" in answer["error"]
        eventually(lambda: world.ready("rude") == 200)
    assert world.out("rude", 0) != pid
    assert world.run("result = 1") == 1
    world.unload("rude")
    assert world.load("rude")[0] == 200
    for case in range(5, len(cases) + 1):
        assert world.infer("rude", case)[0] == 500
        eventually(lambda: world.ready("rude") == 200)
    world.unload("rude")


def test_memory_above_the_limit_brings_a_new_process(world):
    world.serve(
        "grows",
        """
        kept = b""

        def execute(self, requests):
            if requests[0].inputs()[0].as_numpy()[0] == 2:
                self.kept = b"x" * (300 << 20)
            value = pb_utils.Tensor("OUT", np.array([os.getpid()], np.int32))
            return [pb_utils.InferenceResponse([value]) for _ in requests]
        """,
        f"{ONE_TO_ONE} {parameter('MEMORY_LIMIT_BYTES', 250 << 20)}",
    )
    pid = world.out("grows", 1)
    time.sleep(1.5)
    assert world.out("grows", 1) == pid
    assert world.out("grows", 2) == pid
    eventually(lambda: world.out("grows", 1) != pid)


def test_limits_of_the_operating_system_hold(world):
    world.serve(
        "limited",
        """
        def execute(self, requests):
            import resource
            value = pb_utils.Tensor(
                "OUT", np.array([resource.getrlimit(resource.RLIMIT_NOFILE)[0]], np.int32)
            )
            return [pb_utils.InferenceResponse([value]) for _ in requests]
        """,
        f"{ONE_TO_ONE} {parameter('RLIMIT_NOFILE', 99)}",
    )
    assert world.out("limited") == 99


def test_large_tensors_arrive_unchanged_and_what_does_not_fit_fails_alone(tmp_path):
    repository = tmp_path / "repository"
    config = """
        input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
        output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
    """
    write_python_model(repository, "ident", config=config)
    options = ("--load-model=ident", f"--backend-config=python,shm-max-byte-size={8 << 20}")
    with runtime(repository, tmp_path / "log", *options) as server, server.http_client() as client:
        for size in (1, 8_192, 8_193, 1_000_000, 3_000_000, 5, 1_000_000):
            array = np.arange(size, dtype=np.float32)
            tensor = httpclient.InferInput("IN", [size], "FP32")
            tensor.set_data_from_numpy(array)
            if array.nbytes > 8 << 20:
                with pytest.raises(Exception, match="Failed to increase the shared memory pool"):
                    client.infer("ident", [tensor])
            else:
                assert (client.infer("ident", [tensor]).as_numpy("OUT") == array).all()
