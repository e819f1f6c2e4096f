"""NVIDIA's perf_analyzer as it is, in the modes that people use it in, against every kind of scheduler."""

import json

import pytest

from tests.conformance.perf_analyzer import PerfAnalyzer, find_perf_analyzer
from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.repeat_model import write_repeat
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_sub, write_model
from tests.sequence_models import accumulator, accumulator_config

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(200)]

INTS = "data_type: TYPE_INT32 dims: [16]"
INPUTS = {name: name for name in ("INPUT0", "INPUT1")}
PROTOCOLS = ("http", "grpc")
MODELS = ("simple", "ident", "ensemble")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8 dynamic_batching { }")
    write_model(path, "sums", accumulator(), config=accumulator_config())
    write_model(path, "oldest", accumulator(), config=accumulator_config("oldest { }"))
    write_python_model(path, "ident", config="max_batch_size: 8" + ONE_TO_ONE)
    write_repeat(path)
    steps = step("simple", INPUTS, {"OUTPUT0": "sum", "OUTPUT1": "difference"}) + step(
        "simple", {"INPUT0": "sum", "INPUT1": "difference"}, {"OUTPUT0": "OUTPUT0"}
    )
    ports = dict.fromkeys(INPUTS, INTS)
    write_ensemble(
        path, "ensemble", steps, inputs=ports, outputs={"OUTPUT0": INTS}, more="max_batch_size: 8"
    )
    return path


@pytest.fixture(scope="module")
def options():
    return ("--load-model=*", "--allow-client-shm=true")


@pytest.fixture
def perf_analyzer(tmp_path):
    return PerfAnalyzer(find_perf_analyzer(), tmp_path)


@pytest.fixture(params=PROTOCOLS)
def target(request, server):
    """A protocol and where it is spoken."""
    return request.param, server.grpc if request.param == "grpc" else server.http


def failures(server):
    models = server.call("GET", "/v2/models/stats")[1]["model_stats"]
    return sum(entry["inference_stats"]["fail"]["count"] for entry in models)


@pytest.fixture(autouse=True)
def no_request_fails(server):
    before = failures(server)
    yield
    assert failures(server) == before


@pytest.mark.parametrize("model", MODELS)
def test_a_range_of_concurrencies(perf_analyzer, target, model):
    found = perf_analyzer.profile(model, *target, "--concurrency-range=1:4:3", "-b", "2")
    assert sorted(row["Concurrency"] for row in found.rows) == ["1", "4"]
    assert "Server:" in found.output  # it has found its way about the statistics
    assert "Composing models" in found.output or model != "ensemble"


def test_request_rates(perf_analyzer, target):
    found = perf_analyzer.profile("simple", *target, "--request-rate-range=50:100:50")
    rates = {row["Request Rate"]: float(row["Inferences/Second"]) for row in found.rows}
    assert rates == {"50": pytest.approx(50, rel=0.4), "100": pytest.approx(100, rel=0.4)}


@pytest.mark.parametrize("model", ["sums", "oldest"])
def test_sequences(perf_analyzer, target, model):
    load = ("--concurrency-range=4", "--sequence-length=5")
    assert len(perf_analyzer.profile(model, *target, *load).rows) == 1
    rate = ("--request-rate-range=60", "--num-of-sequences=4", "--sequence-length=5")
    assert len(perf_analyzer.profile(model, *target, *rate).rows) == 1


@pytest.mark.parametrize("model", ["simple", "ident"])
def test_system_shared_memory(perf_analyzer, target, server, model):
    found = perf_analyzer.profile(
        model, *target, "--shared-memory=system", "--output-shared-memory-size=4096",
        "--concurrency-range=2",
    )  # fmt: skip
    assert len(found.rows) == 1
    assert server.call("GET", "/v2/systemsharedmemory/status") == (200, [])


@pytest.mark.parametrize("model", ["simple", "sums", "ensemble"])
def test_streaming(perf_analyzer, server, model):
    found = perf_analyzer.profile(
        model, "grpc", server.grpc, "--streaming", "--async", "--concurrency-range=3"
    )
    assert len(found.rows) == 1


def test_streaming_of_a_decoupled_model(perf_analyzer, server, tmp_path):
    data = tmp_path / "data.json"
    item = {
        "IN": {"content": [4, 2, 0, 1], "shape": [4]},
        "DELAY": {"content": [1, 0, 2, 0], "shape": [4]},
        "WAIT": {"content": [0], "shape": [1]},
    }
    data.write_text(json.dumps({"data": [item]}))
    found = perf_analyzer.profile(
        "repeat", "grpc", server.grpc, "--streaming", "--async", f"--input-data={data}",
        "--concurrency-range=3",
    )  # fmt: skip
    assert len(found.rows) == 1
