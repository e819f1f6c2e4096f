"""Loads, reloads, unloads and traffic steps while requests come in: none fails, none goes astray."""

import shutil
from collections import Counter

import pytest

from tests.conformance.runtime_process import runtime
from tests.conformance.traffic import traffic
from tests.onnx_models import add_constant, write_model

pytestmark = pytest.mark.conformance


def config(*versions: int) -> str:
    return f"version_policy {{ specific {{ versions: {list(versions)} }} }}"


def table(generation: int, stable: int, canary: int | None = None, share=0.0):
    arms = [{"model": "m", "version": stable, "role": "stable", "weight": round(1 - share, 4)}]
    if canary is not None:
        arms.append({"model": "m", "version": canary, "role": "canary", "weight": share})
    return {"model": "m", "generation": generation, "salt": "s", "unit_header": "", "arms": arms}


@pytest.fixture
def served(tmp_path):
    repository = tmp_path / "repository"
    directory = write_model(repository, "m", add_constant(1), version=1, config=config(1))
    with runtime(repository, tmp_path / "log") as server, server.http_client() as client:
        client.load_model("m")
        yield server, client, directory


def test_a_new_version_takes_over_without_a_failed_request(served):
    server, client, directory = served
    with traffic(server, "m") as run:
        for version in (2, 3):
            write_model(
                directory.parent,
                "m",
                add_constant(version),
                version=version,
                config=config(version),
            )
            client.load_model("m")
            assert client.is_model_ready("m", str(version))
            run.wait_more(40)
        shutil.rmtree(directory / "1")
        client.load_model("m")
        run.wait_more(20)
    assert run.failures == []
    assert run.versions() == {"1", "2", "3"}
    assert all(value == float(version) for version, value in run.answers)


def test_the_same_version_with_other_files_takes_over_too(served):
    server, client, directory = served
    with traffic(server, "m") as run:
        for constant in (5, 6, 7):
            write_model(directory.parent, "m", add_constant(constant), version=1)
            client.load_model("m")
            run.wait_more(20)
    assert run.failures == []
    assert {value for _, value in run.answers} == {1.0, 5.0, 6.0, 7.0}


def test_loads_and_unloads_of_others_do_not_disturb(served):
    server, client, directory = served
    for number in range(3):
        write_model(directory.parent, f"other{number}", add_constant(number))
    with traffic(server, "m") as run:
        for _ in range(3):
            for number in range(3):
                client.load_model(f"other{number}")
            for number in range(3):
                client.unload_model(f"other{number}")
        run.wait_more(20)
    assert run.failures == []


def test_a_rollout_moves_shares_step_by_step(served):
    server, client, directory = served
    write_model(directory.parent, "m", add_constant(2), version=2, config=config(1, 2))
    client.load_model("m")
    with traffic(server, "m", rate_per_client=200) as run:
        for generation, share in enumerate((0.0, 0.1, 0.5, 1.0, 0.0), start=1):
            status, _ = server.call(
                "PUT", "/v2/switchyard/traffic/m", table(generation, 1, 2, share)
            )
            assert status == 200
            run.wait_more(8)  # those that were under way
            before = len(run.answers)
            run.wait_more(400)
            counts = Counter(version for version, _ in run.answers[before:])
            got = counts["2"] / sum(counts.values())
            assert abs(got - share) < 0.12
            if share in (0.0, 1.0):
                assert got == share
    assert run.failures == []


def test_an_arm_that_is_unloaded_leaves_its_share_to_the_other(served):
    server, client, directory = served
    write_model(directory.parent, "m", add_constant(2), version=2, config=config(1, 2))
    client.load_model("m")
    server.call("PUT", "/v2/switchyard/traffic/m", table(1, 1, 2, 0.5))
    with traffic(server, "m") as run:
        run.wait_more(60)
        (directory / "config.pbtxt").write_text(config(1))
        client.load_model("m")
        run.wait_more(8)
        before = len(run.answers)
        run.wait_more(60)
        assert {version for version, _ in run.answers[before:]} == {"1"}
    assert run.failures == []
    assert run.versions() == {"1", "2"}


def test_arms_and_versions_are_named_in_the_headers(served):
    server, client, directory = served
    import urllib.request

    write_model(directory.parent, "m", add_constant(2), version=2, config=config(1, 2))
    client.load_model("m")
    server.call("PUT", "/v2/switchyard/traffic/m", table(1, 1, 2, 1.0))
    body = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,4],"data":[0,0,0,0]}]}'

    def headers(path):
        request = urllib.request.Request(f"http://{server.http}{path}", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.headers["x-rollout-arm"], answer.headers["x-model-version"]

    assert headers("/v2/models/m/infer") == ("canary", "2")
    assert headers("/v2/models/m/versions/1/infer")[1] == "1"
    status, statistics = server.call("GET", "/v2/switchyard/statistics")
    assert status == 200
    arms = {
        (entry["version"], arm["arm"]): arm["successes"]
        for entry in statistics["models"]
        for arm in entry["arms"]
    }
    assert arms[2, "canary"] == 1
    assert arms[1, ""] == 1


def test_traffic_tables_over_http_say_what_is_wrong(served):
    server, _, _ = served
    path = "/v2/switchyard/traffic/m"
    assert server.call("GET", path)[0] == 404
    assert server.call("GET", "/v2/switchyard/traffic") == (200, {"tables": []})
    assert server.call("PUT", path, table(1, 2))[0] == 400
    assert server.call("PUT", path, {"arms": []})[0] == 400
    assert server.call("PUT", path, table(2, 1))[0] == 200
    assert server.call("PUT", path, table(2, 1))[0] == 200
    assert server.call("PUT", path, table(1, 1))[0] == 409
    assert server.call("PUT", path, {**table(2, 1), "salt": "other"})[0] == 409
    assert server.call("GET", path)[1]["generation"] == 2
    assert server.call("DELETE", f"{path}?generation=1")[0] == 409
    assert server.call("DELETE", f"{path}?generation=3")[0] == 200
    assert server.call("GET", path)[0] == 404
