"""`--frontends 2`: two processes with the sockets before one with the models. Clients see one server."""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client
from tests.conformance.front_ends import alive, front_ends, owner, waiting_too
from tests.conformance.metrics_page import client_faults
from tests.conformance.raw_grpc import message_of, open_stub, send_unreadable
from tests.conformance.repeat_model import (
    final,
    inflight,
    open_stream,
    repeat_inputs,
    write_repeat,
)
from tests.conformance.runtime_process import runtime
from tests.conformance.traffic import traffic
from tests.onnx_models import add_sub, identity, slow, write_model, write_versions

pytestmark = pytest.mark.conformance
COUNT = 2


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8 dynamic_batching { }")
    write_model(path, "echo", identity("FP32"))
    write_model(path, "strings", identity("BYTES"))
    write_model(path, "slow", slow())
    write_repeat(path)
    write_versions(path, 1, 2)
    return path


@pytest.fixture(scope="module")
def options():
    return ("--load-model=*", f"--frontends={COUNT}", "--allow-client-shm=true")


def post(
    connection: http.client.HTTPConnection, model: str, *inputs: dict[str, Any]
) -> dict[str, Any]:
    body = json.dumps({"inputs": list(inputs)})
    connection.request("POST", f"/v2/models/{model}/infer", body)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content
    return json.loads(content)


def echo(connection: http.client.HTTPConnection, number: float) -> float:
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [number]}
    return post(connection, "echo", tensor)["outputs"][0]["data"][0]


@contextmanager
def connected_to_each(server) -> Iterator[dict[int, http.client.HTTPConnection]]:
    """Connections that have been used, one of each process, by the process."""
    with ExitStack() as opened:
        found: dict[int, http.client.HTTPConnection] = {}
        deadline = time.monotonic() + 20
        while len(found) < COUNT:
            assert time.monotonic() < deadline, "one process got no connection"
            connection = http.client.HTTPConnection(server.http, timeout=20)
            opened.callback(connection.close)
            echo(connection, 1)
            found.setdefault(owner(server, connection.sock), connection)
        yield found


def test_connections_are_spread_over_the_processes(server):
    pids = set(front_ends(server))
    assert len(pids) == COUNT
    with connected_to_each(server) as by_process:
        assert set(by_process) == pids


def test_stock_clients_get_their_answers(client):
    first = np.arange(32, dtype=np.int32).reshape(2, 16)
    second = np.full((2, 16), 3, np.int32)
    for _ in range(3):
        result = client.ask("simple", {"INPUT0": first, "INPUT1": second})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)


@pytest.mark.parametrize("elements", [1, 5_000, 60_000, 250_000])
def test_tensors_of_all_sizes_come_back_as_they_went(client, elements):
    array = np.random.default_rng(elements).random((1, elements), np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(
            client.ask("echo", {"INPUT0": array}).as_numpy("OUTPUT0"), array
        )


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_tensors_larger_than_what_lies_between_the_processes(server, kind):
    array = np.random.default_rng(0).random((1, 6_000_000), np.float32)
    client = Client(server, kind)
    np.testing.assert_array_equal(client.ask("echo", {"INPUT0": array}).as_numpy("OUTPUT0"), array)
    client.close()


def test_strings_of_changing_length(client):
    for words in ([b"a", b""], [b"longer", b"x" * 300], [b"", b""]):
        array = np.array([words], np.object_)
        result = client.ask("strings", {"INPUT0": array})
        assert result.as_numpy("OUTPUT0").tolist() == [words]


def test_ids_and_versions_come_back(client):
    zero = np.zeros((1, 4), np.float32)
    result = client.ask("versions", {"INPUT0": zero}, request_id="häßlich", model_version="1")
    answer = result.get_response()
    get = answer.get if isinstance(answer, dict) else lambda name: getattr(answer, name)
    assert (get("id"), get("model_version")) == ("häßlich", "1")
    assert result.as_numpy("OUTPUT0").tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("model", "text"),
    [("nobody", "unknown model"), ("echo", "unexpected inference input 'INPUT1'")],
)
def test_faults_are_told_in_the_same_words(client, model, text):
    with pytest.raises(InferenceServerException) as caught:
        client.ask(model, {"INPUT1": np.zeros((1, 1), np.float32)})
    assert text in caught.value.message()


def test_what_there_is_is_told_by_every_process(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert not client.is_model_ready("nobody")
    assert client.names(client.get_model_metadata("simple"))["name"] == "simple"
    config = client.names(client.get_model_config("simple"))
    assert (config.get("config") or config)["name"] == "simple"
    with pytest.raises(InferenceServerException, match="unknown model"):
        client.get_model_metadata("nobody")


def test_statistics_count_the_requests_of_all_processes(server):
    def executed() -> int:
        return server.call("GET", "/v2/models/versions/versions/2/stats")[1]["model_stats"][0][
            "inference_count"
        ]

    before = executed()
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
    with connected_to_each(server) as connections:
        for connection in connections.values():
            assert post(connection, "versions", tensor)["outputs"][0]["data"] == [2, 2, 2, 2]
    assert executed() == before + COUNT


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_what_can_not_be_read_in_any_process_is_counted_once(server, kind):
    before = client_faults(server)
    for _ in range(3):
        send_unreadable(server, kind)
    server.wait_for(lambda: client_faults(server) == before + 3, "three requests to be counted")


def test_a_stream_gives_each_answer_as_it_comes(server):
    with server.grpc_client() as client, open_stream(client) as stream:
        stream.repeat([4, 2, 0, 1], request_id="r", enable_empty_final_response=True)
        results = stream.results(5)
        assert [int(r.as_numpy("OUT")[0]) for r in results[:4]] == [4, 2, 0, 1]
        assert [final(result) for result in results] == [False] * 4 + [True]
        assert {result.get_response().id for result in results} == {"r"}


def test_requests_of_a_stream_are_answered_in_order_and_decoupled_ones_do_not_hold_them_up(server):
    with server.grpc_client() as client, open_stream(client) as stream:
        stream.repeat([1], delay_ms=1500, request_id="late")
        tensor = grpcclient.InferInput("INPUT0", [1, 1], "FP32")
        for number in range(20):
            tensor.set_data_from_numpy(np.full((1, 1), number, np.float32))
            client.async_stream_infer("echo", [tensor], request_id=str(number))
        ids = [result.get_response().id for result in stream.results(21)]
    assert ids == [*map(str, range(20)), "late"]


def test_only_what_a_model_took_has_a_final_response(server):
    short = grpcclient.InferInput("INPUT0", [1, 2], "FP32")
    short.set_data_from_numpy(np.ones((1, 2), np.float32))
    requests = [message_of(model, [short], id=model) for model in ("nobody", "echo")]
    requests[1].inputs[0].shape[1] = 3
    requests.append(message_of("repeat", repeat_inputs([1, 2], delays=[0]), id="repeat"))
    with open_stub(server) as stub:
        answers = list(stub.ModelStreamInfer(iter(requests), timeout=30))
    found = {answer.infer_response.id: answer.infer_response for answer in answers}
    assert all(answer.error_message for answer in answers)
    assert {id_: bool(response.parameters) for id_, response in found.items()} == {
        "nobody": False,
        "echo": False,
        "repeat": True,
    }


def test_a_client_that_leaves_its_stream_is_cancelled_in_the_executor(server):
    with server.grpc_client() as client, open_stream(client) as stream:
        stream.repeat([1] * 1000, delay_ms=50)
        stream.next()
        assert inflight(server) == 1
    server.wait_for(lambda: inflight(server) == 0, "the cancelled request's end")


def test_generate_streams_events(server):
    connection = http.client.HTTPConnection(server.http, timeout=20)
    for values in ([3, 1, 2], [7]):
        body = json.dumps({"IN": values, "DELAY": [0] * len(values), "WAIT": 0})
        connection.request("POST", "/v2/models/repeat/generate_stream", body)
        answer = connection.getresponse()
        events = answer.read().decode().split("\n\n")[:-1]
        assert [json.loads(event.removeprefix("data: "))["OUT"] for event in events] == values
    connection.request("POST", "/v2/models/nobody/generate_stream", "{}")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/json")
    assert b"unknown model" in answer.read()
    connection.close()


def test_a_deadline_of_the_client_holds(server):
    with server.grpc_client() as client:
        tensor = grpcclient.InferInput("ITERATIONS", [1], "INT64")
        tensor.set_data_from_numpy(np.array([1500], np.int64))
        with pytest.raises(InferenceServerException, match="Deadline"):
            client.infer("slow", [tensor], client_timeout=0.2)
        server.wait_for(lambda: inflight(server, "slow") == 0, "the end of the request")


def test_every_process_knows_a_change_at_once(server):
    """A table that keys on a header, and the model behind it, are the same for all."""
    url = "/v2/switchyard/traffic/versions"
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}
    with connected_to_each(server) as connections:
        for generation, header in enumerate(("x-first", "x-second") * 5, start=1):
            arms = [
                {"model": "versions", "version": v, "role": role, "weight": 0.5}
                for v, role in ((1, "stable"), (2, "canary"))
            ]
            table = {
                "model": "versions", "generation": generation, "salt": "s",
                "unit_header": header, "arms": arms,
            }  # fmt: skip
            assert server.call("PUT", url, table)[0] == 200
            seen = set()
            for connection in [*connections.values()] * 4:
                body = json.dumps({"inputs": [tensor]})
                headers = {header: f"unit {generation}"}
                connection.request("POST", "/v2/models/versions/infer", body, headers)
                answer = connection.getresponse()
                seen.add(answer.headers["x-model-version"])
                answer.read()
            assert len(seen) == 1, f"one unit went to {seen}"
    assert server.call("DELETE", url)[0] == 200


def test_settings_of_the_log_reach_every_process(server):
    def lines() -> list[str]:
        return [line for line in server.log.splitlines() if "/v2/models/echo/infer" in line]

    before = len(lines())
    assert server.call("POST", "/v2/logging", {"log_verbose_level": 1})[0] == 200
    with connected_to_each(server) as connections:
        server.wait_for(
            lambda: (
                [echo(connection, 1) for connection in connections.values()]
                and len({line.split()[2] for line in lines()[before:]}) == COUNT
            ),
            "a line of each process",
        )
    server.call("POST", "/v2/logging", {"log_verbose_level": 0})


def test_models_come_and_go_under_traffic(server):
    with traffic(server, "versions") as run, server.http_client() as client:
        for _ in range(3):
            client.unload_model("simple")
            assert not client.is_model_ready("simple")
            client.load_model("simple")
            assert client.is_model_ready("simple")
            client.load_model("versions")
            run.wait_more(30)
    assert run.failures == []
    assert run.versions() == {"2"}


@pytest.fixture
def own_server(repository, tmp_path):
    with runtime(repository, tmp_path / "log", "--load-model=*", f"--frontends={COUNT}") as running:
        yield running


def descriptor_count(server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def mapped_links(server) -> int:
    """How many of them the executor has in its memory."""
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    return maps.count("memfd:switchyard-front-end")


class Load:
    """A client that asks one request after the other on one connection, and reconnects when it breaks."""

    def __init__(self, server, number: int, stop: threading.Event) -> None:
        self.connection = http.client.HTTPConnection(server.http, timeout=20)
        echo(self.connection, 0)
        self.process = owner(server, self.connection.sock)
        self.answers = self.wrong = 0
        self.broken: list[str] = []
        self._stop = stop
        self._number = number
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = float(self._number)
        while not self._stop.is_set():
            number += 1
            try:
                self.wrong += echo(self.connection, number) != number
                self.answers += 1
            except (OSError, http.client.HTTPException) as error:
                self.broken.append(repr(error))
                self.connection.close()
        self.connection.close()


def test_a_killed_front_end_costs_its_own_clients_only_and_is_replaced(own_server):
    server = own_server
    server.wait_for(lambda: len(waiting_too(server)) == COUNT + 1, "one that stands ready")
    descriptors, mappings = descriptor_count(server), mapped_links(server)
    stop = threading.Event()
    clients = [Load(server, 1000 * number, stop) for number in range(16)]
    before = set(front_ends(server))
    victim = clients[0].process
    for client in clients:
        client.thread.start()
    try:
        server.wait_for(lambda: all(client.answers > 20 for client in clients), "answers")
        os.kill(victim, signal.SIGKILL)
        counts = [client.answers for client in clients]
        server.wait_for(lambda: len(front_ends(server)) == COUNT, "another front end")
        server.wait_for(
            lambda: all(c.answers > n + 50 for c, n in zip(clients, counts, strict=True)),
            "more answers for all",
        )
    finally:
        stop.set()
        for client in clients:
            client.thread.join(20)
    assert victim not in front_ends(server)
    assert len(set(front_ends(server)) & before) == COUNT - 1
    assert [client.broken for client in clients if client.process != victim and client.broken] == []
    assert clients[0].broken
    assert sum(client.wrong for client in clients) == 0
    with connected_to_each(server) as connections:
        assert len(connections) == COUNT
    assert inflight(server, "echo") == 0
    server.wait_for(lambda: len(waiting_too(server)) == COUNT + 1, "another that stands ready")
    server.wait_for(
        lambda: descriptor_count(server) <= descriptors, "the dead process' descriptors to go"
    )
    assert mapped_links(server) <= mappings


def test_what_a_killed_front_end_had_under_way_is_cancelled(own_server):
    server = own_server
    with server.grpc_client() as client, open_stream(client) as stream:
        stream.repeat([1] * 10_000, delay_ms=20)
        stream.next()
        server.wait_for(lambda: inflight(server) == 1, "the request")
        for pid in front_ends(server):
            os.kill(pid, signal.SIGKILL)
        server.wait_for(server.ready, "a front end")
        server.wait_for(lambda: inflight(server) == 0, "the end of its request")


def test_no_front_end_outlives_its_executor(own_server):
    server = own_server
    pids = waiting_too(server)
    with connected_to_each(server):
        server.process.kill()
        server.process.wait()
        server.wait_for(lambda: not any(map(alive, pids)), "the end of the front ends")
    assert len(pids) >= COUNT


def test_sigterm_finishes_what_was_accepted(own_server):
    server = own_server
    answers = []

    def ask(module, address) -> None:
        tensor = module.InferInput("ITERATIONS", [1], "INT64")
        tensor.set_data_from_numpy(np.array([1000], np.int64))
        client = module.InferenceServerClient(address)
        answers.append(client.infer("slow", [tensor]).as_numpy("OUTPUT0"))
        client.close()

    kinds = [(httpclient, server.http), (grpcclient, server.grpc)] * 2
    threads = [threading.Thread(target=ask, args=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    server.wait_for(lambda: inflight(server, "slow") == len(kinds), "the requests")
    pids = waiting_too(server)
    assert server.terminate() == 0
    for thread in threads:
        thread.join(20)
    assert len(answers) == len(kinds)
    assert not any(map(alive, pids))


def test_a_port_that_another_server_has_is_named(server, repository, tmp_path):
    """Also one whose owner would share it: two servers by mistake are not to halve each other's traffic."""
    port = server.ports["HTTPService"]
    options = (f"--http-port={port}", "--frontends=1")
    with runtime(repository, tmp_path / "log", *options, wait=False) as second:
        assert second.wait_exit() == 1
        assert f"Socket '127.0.0.1:{port}' already in use" in second.log
