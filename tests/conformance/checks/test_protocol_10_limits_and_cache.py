"""Section 9.10 of the compliance checklist: rate limiter and response cache, and our extension of the former."""

import threading
import time
import urllib.request
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.client_regions import SIZE, registered, shared_input
from tests.conformance.clients import KINDS, Client
from tests.conformance.limited_models import count_of, need, statistics_of, write_echo
from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.repeat_model import write_repeat
from tests.conformance.runtime_process import runtime
from tests.inference_runtime.routing.ensembles import CHAIN, step, write_adders, write_ensemble

pytestmark = pytest.mark.conformance
LIMITED = "--rate-limit=execution_count"
TOO_FEW = (
    'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model '
    "instances, the minimum required count is 2"
)


@pytest.fixture(scope="module")
def limited_repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("limited")
    write_echo(path, "first", delay_ms=4, needs=need("R"))
    write_echo(path, "second", delay_ms=4, needs=need("R", priority=2))
    write_echo(path, "large", needs=need("R", 2))
    write_echo(path, "clash", needs=need("R", everywhere=False))
    write_echo(path, "own", needs=need("S", 2, everywhere=False))
    write_echo(path, "free")
    return path


def ask(client: Client, model: str, value=1.0, length=4) -> Any:
    return client.ask(model, {"INPUT0": np.full((1, length), value, np.float32)})


def completed(server, kind: str, total: int) -> Counter[str]:
    """Who had how many of the first executions, with both models asked by eight clients all the time."""
    order: list[str] = []
    stop = threading.Event()

    def work(model: str) -> None:
        client = Client(server, kind)
        while not stop.is_set():
            ask(client, model)
            order.append(model)
        client.close()

    threads = [
        threading.Thread(target=work, args=(model,))
        for model in ("first", "second")
        for _ in "12345678"
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while len(order) < total:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    return Counter(order[:total])


@pytest.fixture(scope="module")
def limited(limited_repository, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    models = [f"--load-model={name}" for name in ("first", "second", "own", "free")]
    with runtime(limited_repository, log, LIMITED, *models) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_check_157_priorities_share_a_scarce_resource_two_to_one(limited, kind):
    counts = completed(limited, kind, 160)
    assert counts["first"] / counts["second"] > 1.8


@pytest.mark.parametrize("kind", KINDS)
def test_check_157_with_plenty_of_a_resource_priorities_do_not_matter(limited, kind):
    assert put(limited, ("R", "global", 2))[0] == 200
    counts = completed(limited, kind, 160)
    assert put(limited, ("R", "global", None))[0] == 200
    assert abs(counts["first"] - counts["second"]) < 20


def test_check_157_off_nothing_is_limited(limited_repository, tmp_path):
    models = ("--load-model=first", "--load-model=large", "--rate-limit-resource=R:1")
    with runtime(limited_repository, tmp_path / "log", *models) as server:
        assert server.call("GET", "/v2/models/large/ready")[0] == 200
        status, body = server.call("GET", "/v2/switchyard/slots")
        assert (status, "the rate limiter is off" in body["error"]) == (501, True)
        assert "switchyard_slots" not in server.call("GET", "/v2")[1]["extensions"]


@pytest.fixture(scope="module")
def scarce(limited_repository, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    options = (LIMITED, "--rate-limit-resource=R:1", "--load-model=first")
    with runtime(limited_repository, log, *options) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_check_158_a_count_below_the_requirement_fails_the_load(scarce, kind):
    client = Client(scarce, kind)
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("large")
    assert TOO_FEW in caught.value.message()
    assert not client.is_model_ready("large")
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("own")  # not listed: none of it
    assert 'Resource count for "S" is limited to 0' in caught.value.message()
    assert ask(client, "first").as_numpy("OUTPUT0").tolist() == [[1.0] * 4]
    client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_check_158_a_name_that_is_global_and_of_a_device_fails_the_load(limited, kind):
    client = Client(limited, kind)
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("clash")
    client.close()
    assert (
        'Resource "R" is present as both global and device-specific resource in the model configuration.'
    ) in caught.value.message()


def test_check_158_a_server_that_can_not_load_its_models_ends(limited_repository, tmp_path):
    options = (LIMITED, "--rate-limit-resource=R:1", "--load-model=large")
    with runtime(limited_repository, tmp_path / "log", *options, wait=False) as server:
        assert server.wait_exit() == 1
        assert "Resource count for" in server.log


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--rate-limit=sometimes", "invalid argument for --rate-limit"),
        ("--rate-limit-resource=R", "--rate-limit-resource option format is"),
        ("--cache-config=local,size=0", "must be given a size in bytes greater than 0"),
        ("--cache-config=nonsense", "--cache-config option format is"),
    ],
)
def test_check_158_options_that_can_not_be_meant_end_the_start(
    limited_repository, tmp_path, option, text
):
    with runtime(limited_repository, tmp_path / "log", option, wait=False) as server:
        assert server.wait_exit() == 1
        assert text in server.log


def pools(server) -> dict[tuple[str, str], dict[str, Any]]:
    status, body = server.call("GET", "/v2/switchyard/slots")
    assert status == 200
    return {(pool["name"], pool["device"]): pool for pool in body["pools"]}


def put(server, *entries):
    keys = ("name", "device", "capacity")
    body = {"pools": [dict(zip(keys, entry, strict=True)) for entry in entries]}
    return server.call("PUT", "/v2/switchyard/slots", body)


def test_slots_are_shown_and_announced(limited):
    assert "switchyard_slots" in limited.call("GET", "/v2")[1]["extensions"]
    assert pools(limited) == {
        ("R", "global"): {
            "name": "R", "device": "global", "capacity": 1, "in_use": 0, "waiting": 0, "holders": [],
        },
        ("S", "cpu"): {
            "name": "S", "device": "cpu", "capacity": 2, "in_use": 0, "waiting": 0, "holders": [],
        },
    }  # fmt: skip


def test_capacities_change_while_running_and_are_taken_back(limited):
    status, body = put(limited, ("R", "global", 5), ("S", "cpu", 3))
    assert (status, [pool["capacity"] for pool in body["pools"]]) == (200, [5, 3])
    status, body = put(limited, ("R", "global", None), ("S", "cpu", None))
    assert (status, [pool["capacity"] for pool in body["pools"]]) == (200, [1, 2])


def test_a_capacity_below_a_loaded_models_need_is_refused_and_names_it(limited):
    status, body = put(limited, ("R", "global", 7), ("S", "cpu", 1))
    assert status == 400
    assert body["error"].endswith(
        'Resource count for "S" is limited to 1 which will prevent scheduling of one or more model '
        "instances, the minimum required count is 2: needed by 'own' version 1"
    )
    assert pools(limited)["R", "global"]["capacity"] == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"pools": []}, 400),
        ({"pools": [{"name": "R", "device": "global"}]}, 400),
        ({"pools": [{"name": "R", "device": 0, "capacity": 1}]}, 400),
        ({"pools": [{"name": "R", "device": "global", "capacity": -1}]}, 400),
        ({"pools": [{"name": "R", "device": "global", "capacity": True}]}, 400),
        ({"pools": [{"name": "R", "device": "global", "capacity": 1.5}]}, 400),
        ({"pools": [{"name": "R", "device": "global", "capacity": 2}] * 2}, 400),
        ({"pools": [{"name": "none", "device": "cpu", "capacity": 1}]}, 404),
        ([], 400),
    ],
)
def test_capacities_that_can_not_be_meant_are_refused(limited, body, status):
    before = pools(limited)
    assert limited.call("PUT", "/v2/switchyard/slots", body)[0] == status
    assert pools(limited) == before


def test_holders_are_named_and_an_unload_gives_their_slots_back(tmp_path):
    repository = tmp_path / "repository"
    write_echo(repository, "slow", delay_ms=600, needs=need("R"))
    write_echo(repository, "next", needs=need("R"))
    with runtime(repository, tmp_path / "log", LIMITED, "--load-model=*") as server:
        asking = [
            threading.Thread(target=lambda name=name: ask(Client(server, "http"), name))
            for name in ("slow", "next")
        ]
        asking[0].start()
        server.wait_for(lambda: pools(server)["R", "global"]["in_use"] == 1, "a holder")
        asking[1].start()
        server.wait_for(lambda: pools(server)["R", "global"]["waiting"] == 1, "one that waits")
        assert pools(server)["R", "global"]["holders"] == [
            {"model": "slow", "version": 1, "instance": "slow_0_0", "count": 1}
        ]
        assert 'runtime_slots_in_use{device="global",pool="R"} 1' in metrics(server)
        assert server.call("POST", "/v2/repository/models/slow/unload")[0] == 200
        for thread in asking:
            thread.join()
        server.wait_for(lambda: pools(server)["R", "global"]["in_use"] == 0, "all slots back")
        assert pools(server)["R", "global"]["holders"] == []


DYING = """
import os, signal

class TritonPythonModel:
    def execute(self, requests):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_slots_of_a_model_whose_process_dies_come_back(tmp_path):
    repository = tmp_path / "repository"
    limits = f"{ONE_TO_ONE} instance_group {{ rate_limiter {{ {need('R')} }} }}"
    write_python_model(repository, "dying", source=DYING, config=limits)
    write_echo(repository, "other", needs=need("R"))
    with runtime(repository, tmp_path / "log", LIMITED, "--load-model=*") as server:
        client = Client(server, "grpc")
        for _ in range(3):
            with pytest.raises(InferenceServerException):
                client.ask("dying", {"IN": np.ones(1, np.int32)})
            assert ask(client, "other").as_numpy("OUTPUT0").tolist() == [[1.0] * 4]
            pool = pools(server)["R", "global"]
            assert (pool["in_use"], pool["waiting"], pool["holders"]) == (0, 0, [])
        client.close()


def metrics(server) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        return answer.read().decode()


CACHED = "response_cache { enable: true }"
ROW = "data_type: TYPE_FP32 dims: [-1]"
SERVED = [kind.replace("-", "_") for kind in KINDS]


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    path = tmp_path_factory.mktemp("cached")
    for model in SERVED:
        write_echo(path, model, more=CACHED)
    write_echo(path, "plain")
    write_echo(path, "sequences", more=CACHED + " sequence_batching { }")
    write_repeat(path)
    write_adders(path)
    write_ensemble(path, "whole", CHAIN, more="max_batch_size: 4 " + CACHED)
    write_echo(path, "kept", more=CACHED)
    through = step("kept", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"})
    write_ensemble(path, "through", through, inputs={"IN": ROW}, outputs={"OUT": ROW})
    with (path / "repeat" / "config.pbtxt").open("a") as config:
        config.write(CACHED)
    options = ("--cache-config=local,size=1048576", "--allow-client-shm=true")
    models = [f"--load-model={name}" for name in (*SERVED, "plain", "whole", "through")]
    with runtime(path, path / "log", *options, *models) as server:
        yield server


@pytest.fixture(scope="module")
def server(cached):
    return cached


@pytest.fixture
def model(client):
    """One for every kind of client, as it is after a load."""
    name = client.kind.replace("-", "_")
    client.unload_model(name)
    client.load_model(name)
    return name


def test_check_159_the_second_equal_request_is_a_hit(client, model):
    for value in (1.0, 1.0):
        assert ask(client, model, value).as_numpy("OUTPUT0").tolist() == [[value] * 4]
    entry = statistics_of(client, model)
    counts = {name: count_of(entry, name) for name in ("cache_hit", "cache_miss", "success")}
    assert counts == {"cache_hit": 1, "cache_miss": 1, "success": 2}
    assert count_of(entry, "queue") == 2
    assert count_of(entry, "compute_infer") == 1
    assert int(entry["inference_count"]) == int(entry["execution_count"]) == 1
    # Other data, and the same bytes in another shape, are other requests.
    assert ask(client, model, 2.0).as_numpy("OUTPUT0").tolist() == [[2.0] * 4]
    two = client.ask(model, {"INPUT0": np.full((2, 2), 1.0, np.float32)})
    assert two.as_numpy("OUTPUT0").shape == (2, 2)
    entry = statistics_of(client, model)
    assert (count_of(entry, "cache_hit"), count_of(entry, "cache_miss")) == (1, 3)


def test_check_159_a_model_without_the_setting_is_not_cached(client):
    for _ in range(2):
        ask(client, "plain")
    assert count_of(statistics_of(client, "plain"), "cache_miss") == 0


def test_check_159_a_reload_forgets_and_a_large_request_is_found(client, model):
    for _ in range(2):
        assert ask(client, model, 9.0, 60_000).as_numpy("OUTPUT0").shape == (1, 60_000)
    assert count_of(statistics_of(client, model), "cache_hit") >= 1
    client.unload_model(model)
    client.load_model(model)
    ask(client, model, 9.0, 60_000)
    entry = statistics_of(client, model)
    assert (count_of(entry, "cache_hit"), count_of(entry, "cache_miss")) == (0, 1)


def test_check_159_shared_memory_is_looked_up_by_what_it_holds(client, model):
    values = [np.full((1, 16), number, np.float32) for number in (21, 22)]
    with registered(client, SIZE, values[0]) as region:
        tensor = shared_input(client, "INPUT0", region.name, datatype="FP32")
        for value in (values[0], values[0], values[1]):
            region.put(value)
            result = client.infer(model, [tensor])
            assert result.as_numpy("OUTPUT0").tolist() == value.tolist()
    assert count_of(statistics_of(client, model), "cache_hit") == 1


def test_check_160_a_cache_that_is_too_small_costs_nobody_an_answer(tmp_path):
    write_echo(tmp_path, "echo", more=CACHED)
    options = ("--response-cache-byte-size=200", "--load-model=echo")
    with runtime(tmp_path, tmp_path / "log", *options) as server:
        client = Client(server, "grpc")
        for _ in range(2):
            assert ask(client, "echo").as_numpy("OUTPUT0").tolist() == [[1.0] * 4]
        entry = statistics_of(client, "echo")
        assert (count_of(entry, "cache_miss"), count_of(entry, "cache_hit")) == (2, 0)
        assert count_of(entry, "success") == 2
        assert server.log.count("Failed to insert key") == 2
        client.close()


def new_counts(client: Client, model: str, before: dict[str, Any]) -> dict[str, int]:
    names = ("success", "cache_hit", "cache_miss", "compute_infer")
    after = statistics_of(client, model)
    return {name: count_of(after, name) - count_of(before, name) for name in names}


def ask_ensemble(client: Client, model: str, value: float) -> float:
    answer = client.ask(model, {"IN": np.full((1, 4), value, np.float32)})
    return float(answer.as_numpy("OUT")[0, 0])


def test_check_161_a_cached_ensemble_executes_its_models_once(client):
    value = 100.0 + KINDS.index(client.kind)
    before = {name: statistics_of(client, name) for name in ("whole", "plus1")}
    assert [ask_ensemble(client, "whole", value) for _ in range(2)] == [value + 11] * 2
    whole = new_counts(client, "whole", before["whole"])
    assert (whole["success"], whole["cache_hit"], whole["cache_miss"]) == (2, 1, 1)
    composing = new_counts(client, "plus1", before["plus1"])
    assert (composing["success"], composing["compute_infer"]) == (1, 1)


def test_check_161_a_cached_composing_model_is_no_hit_of_the_ensemble(client):
    value = 200.0 + KINDS.index(client.kind)
    before = {name: statistics_of(client, name) for name in ("through", "kept")}
    assert [ask_ensemble(client, "through", value) for _ in range(2)] == [value] * 2
    through = new_counts(client, "through", before["through"])
    assert (through["success"], through["cache_hit"], through["cache_miss"]) == (2, 0, 0)
    kept = new_counts(client, "kept", before["kept"])
    assert (kept["success"], kept["cache_hit"], kept["compute_infer"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("sequences", "with sequence batching scheduler"),
        ("repeat", "with 'decoupled' transaction policy"),
    ],
)
def test_check_162_a_model_that_can_not_be_cached_does_not_load(client, model, reason):
    with pytest.raises(InferenceServerException) as caught:
        client.load_model(model)
    assert (
        f"Response Cache does not currently support model {model} {reason}. Please disable the response "
        "cache."
    ) in caught.value.message()
    assert not client.is_model_ready(model)


def test_a_server_without_a_cache_says_so_and_serves(tmp_path):
    write_echo(tmp_path, "echo", more=CACHED)
    with runtime(tmp_path, tmp_path / "log", "--load-model=echo") as server:
        assert "enables the response cache, and this server has none" in server.log
        client = Client(server, "http")
        for _ in range(2):
            ask(client, "echo")
        assert count_of(statistics_of(client, "echo"), "success") == 2
        assert "nv_cache" not in metrics(server)
        client.close()
