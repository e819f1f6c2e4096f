"""Clients that pull their shared memory from under the server, fill its tables, or ask for what is not theirs."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.client_regions import (
    FIRST,
    PAGE,
    SECOND,
    SIZE,
    descriptors,
    inflight,
    registered,
    shared,
    shared_input,
    shared_output,
    status,
    write_region_models,
)
from tests.conformance.clients import KINDS, Client
from tests.conformance.runtime_process import runtime

REGIONS = 100
COPIED = 8 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = write_region_models(tmp_path_factory.mktemp("repository"))
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    options = ["--allow-client-shm=true", f"--switchyard-shm-regions={REGIONS}"]
    options.append(f"--switchyard-shm-bytes={COPIED}")
    with runtime(repository, log, "--load-model=*", *options) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    found = Client(server, request.param)
    yield found
    found.close()


def assert_serves(client):
    inputs = [client.tensor("INPUT0", FIRST), client.tensor("INPUT1", SECOND)]
    result = client.infer("simple", inputs)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), FIRST + SECOND)


def test_objects_that_shrink_and_grow_all_the_time_end_no_server(server, client):
    elements = 200_000
    size = 4 * elements
    data = np.ones((1, elements), np.int32)
    stop = threading.Event()
    with registered(client, size, data) as region, registered(client, size) as answer:
        paths = (region.path, answer.path)

        def change():
            while not stop.is_set():
                for length in (0, PAGE, size // 2, size):
                    for path in paths:
                        os.truncate(path, length)
                time.sleep(0.002)

        thread = threading.Thread(target=change)
        thread.start()
        refusals: list[str] = []
        answered = 0
        tensor = shared_input(client, "INPUT0", region.name, size, shape=[1, elements])
        output = shared_output(client, "OUTPUT0", answer.name, size)
        try:
            give_up = time.monotonic() + 30
            while (len(refusals) < 5 or answered < 5) and time.monotonic() < give_up:
                try:
                    client.infer("free", [tensor], outputs=[output])
                    answered += 1
                except InferenceServerException as error:
                    refusals.append(str(error))
        finally:
            stop.set()
            thread.join()
        assert len(refusals) >= 5
        assert all("has become smaller since the region was registered" in it for it in refusals)
    assert server.process.poll() is None
    assert_serves(client)


def test_the_table_of_regions_has_an_end_and_leaks_nothing(server, client):
    with contextlib.ExitStack() as stack:
        objects = [stack.enter_context(shared()) for _ in range(REGIONS + 1)]
        for _ in range(3):
            for region in objects[:-1]:
                client.register_system_shared_memory(region.name, region.key, SIZE)
            with pytest.raises(InferenceServerException, match="holds 100 regions, as many as"):
                client.register_system_shared_memory(objects[-1].name, objects[-1].key, SIZE)
            assert descriptors(server) == len(status(client)) == REGIONS
            client.unregister_system_shared_memory()
            assert descriptors(server) == 0
    assert_serves(client)


def test_refused_registrations_leave_no_descriptor(server, client):
    with shared() as region:
        for offset, size in ((0, SIZE + 1), (PAGE, SIZE), (0, 0), (8, 8), (2**63, 2**63)):
            with pytest.raises(InferenceServerException):
                client.register_system_shared_memory("r", region.key, size, offset=offset)
    assert descriptors(server) == 0


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "/..", ".", "a/b", "\0", "\n", "x" * 5000, "/dev/shm/x", "~", "*"]
)
def test_keys_are_names_and_no_paths(server, client, key):
    with pytest.raises(InferenceServerException):
        client.register_system_shared_memory("r", key, 1)
    assert status(client) == {}


def test_a_client_that_dies_in_the_middle_holds_no_region(server):
    client = Client(server, "http")
    with registered(client, SIZE, FIRST) as region:
        for kind in ("http", "grpc"):
            gone = Client(server, kind)
            output = shared_output(gone, "OUTPUT0", region.name)
            tensor = shared_input(gone, "INPUT0", region.name)
            before = inflight(server, "slow")
            asked = threading.Thread(target=_ask, args=(gone, tensor, output))
            asked.start()
            server.wait_for(lambda: inflight(server, "slow") > before, "the request")  # noqa: B023 - awaited here
            gone.close()
            asked.join(30)
        client.unregister_system_shared_memory()
        server.wait_for(lambda: status(client) == {}, "the end of the last user")
        assert descriptors(server) == 0
    client.close()


def _ask(client, tensor, output):
    with contextlib.suppress(Exception):  # whatever a closed client says
        client.infer("slow", [tensor], outputs=[output])


def test_small_requests_do_not_make_the_server_hold_endless_copies(server):
    """Each names 4 MiB; two may be in flight."""
    client = Client(server, "grpc")
    size = 4 << 20
    with registered(client, size) as region:
        before = resident_bytes(server)
        tensor = shared_input(client, "INPUT0", region.name, size, shape=[1, 16])
        answers: list[str] = []
        for _ in range(200):
            client.async_infer(
                "slow", [tensor], lambda result, error: answers.append(str(error or result))
            )
        server.wait_for(lambda: len(answers) == 200, "all answers")
        assert all(
            "input byte size mismatch" in answer or "as many bytes of shared memory" in answer
            for answer in answers
        )
        assert resident_bytes(server) - before < 200 << 20
    client.close()


def resident_bytes(server):
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * PAGE


def test_the_same_input_named_by_many_requests_at_once(server):
    client = Client(server, "grpc")
    with registered(client, 2 * SIZE, FIRST, SECOND) as region:
        tensors = [
            shared_input(client, "INPUT0", region.name),
            shared_input(client, "INPUT1", region.name, offset=SIZE),
        ]
        wrong: list[object] = []
        done = threading.Semaphore(0)

        def taken(result, error):
            if error is not None or not (result.as_numpy("OUTPUT0") == FIRST + SECOND).all():
                wrong.append(error or result)
            done.release()

        for _ in range(500):
            client.async_infer("simple", tensors, taken)
        for _ in range(500):
            assert done.acquire(timeout=30)
        assert wrong == []
        client.unregister_system_shared_memory(region.name)
        assert status(client) == {}
    client.close()


def outside_address():
    """An address of this machine that is not on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address = str(sock.getsockname()[0])
    return "" if address.startswith("127.") else address


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory):
    if not outside_address():
        pytest.skip("this machine has no address besides loopback")
    repository = write_region_models(tmp_path_factory.mktemp("repository"))
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    options = ["--allow-client-shm=true", "--http-address=0.0.0.0", "--grpc-address=0.0.0.0"]
    with runtime(repository, log, "--load-model=*", *options) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_clients_outside_of_loopback_have_no_shared_memory(open_to_all, kind):
    server = open_to_all
    local = Client(server, "http")
    remote = Client(replace_host(server, outside_address()), kind)
    with registered(local, SIZE, FIRST) as region:
        assert set(status(local)) == {region.name}
        assert status(remote) == {}
        calls = [
            lambda: remote.register_system_shared_memory("mine", region.key, SIZE),
            remote.unregister_system_shared_memory,
            remote.unregister_cuda_shared_memory,
            lambda: remote.infer(
                "free", [shared_input(remote, "INPUT0", region.name, shape=[1, 16])]
            ),
        ]
        for call in calls:
            with pytest.raises(InferenceServerException, match="outside of loopback") as caught:
                call()
            assert caught.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
        assert set(status(local)) == {region.name}
    assert_serves(remote)
    remote.close()
    local.close()


def replace_host(server, host):
    """The same server under another address."""

    class Elsewhere:
        http = server.http.replace("127.0.0.1", host)
        grpc = server.grpc.replace("127.0.0.1", host)

    return Elsewhere
