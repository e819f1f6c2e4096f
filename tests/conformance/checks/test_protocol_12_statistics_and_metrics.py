"""Section 9.12 of the compliance checklist, 182 to 193: the statistics extension and /metrics."""

import re
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import KINDS, Client
from tests.conformance.limited_models import count_of, statistics_of, write_echo
from tests.conformance.metrics_page import client_faults
from tests.conformance.raw_grpc import send_unreadable
from tests.conformance.repeat_model import open_stream, write_repeat
from tests.conformance.runtime_process import runtime
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_sub, write_model, write_versions

pytestmark = pytest.mark.conformance
DURATIONS = ("queue", "compute_input", "compute_infer", "compute_output")
REASONS = ("BACKEND", "CANCELED", "OTHER", "REJECTED")
DURATION_COUNTERS = [
    f"nv_inference_{name}_duration_us"
    for name in ("request", "queue", "compute_input", "compute_infer", "compute_output")
]
SUMMARIES = [name.replace("_duration_us", "_summary_us") for name in DURATION_COUNTERS]
HISTOGRAM = "nv_inference_first_response_histogram_ms"
OF_A_MODEL = [
    "nv_inference_request_success",
    "nv_inference_count",
    "nv_inference_exec_count",
    *DURATION_COUNTERS,
    "nv_inference_pending_request_count",
    "nv_model_load_duration_secs",
]
OF_THE_MACHINE = [
    "nv_cpu_utilization",
    "nv_cpu_memory_total_bytes",
    "nv_cpu_memory_used_bytes",
    "nv_pinned_memory_pool_total_bytes",
    "nv_pinned_memory_pool_used_bytes",
]
DELAYED = "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 400000 %s }"
ROW = "data_type: TYPE_FP32 dims: [-1]"
BUCKETS = """
model_metrics { metric_control {
  metric_identifier { family: "nv_inference_first_response_histogram_ms" }
  histogram_options { buckets: [ -1, 0.0, 1, 2.5 ] }
} }
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    for name in ("simple", *(f"simple_{kind}" for kind in KINDS)):
        write_model(path, name, add_sub(), config="max_batch_size: 8")
    write_versions(path, 1, 2, policy="specific { versions: [1, 2] }")
    write_echo(path, "tagged", more='metric_tags { key: "team" value: "vision" }')
    write_echo(path, "cached", more="response_cache { enable: true }")
    write_echo(path, "buckets", more=BUCKETS)
    write_echo(path, "default", delay_ms=200)
    write_echo(path, "batched", delay_ms=600, rows=4, more=DELAYED % "")
    write_echo(
        path,
        "bounded",
        delay_ms=600,
        rows=4,
        more=DELAYED % "default_queue_policy { max_queue_size: 4 }",
    )
    write_repeat(path)
    echo = step("default", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"})
    write_ensemble(path, "whole", echo, inputs={"IN": ROW}, outputs={"OUT": ROW})
    return path


@pytest.fixture(scope="module")
def options():
    return (
        "--load-model=*",
        "--pinned-memory-pool-byte-size=1048576",
        "--metrics-interval-ms=50",
    )


@pytest.fixture(scope="module")
def detailed(repository, tmp_path_factory):
    """Everything that --metrics-config can add, and a response cache."""
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    options = (
        "--metrics-config=histogram_latencies=true",
        "--metrics-config=summary_latencies=true",
        "--metrics-config=summary_quantiles=0.5:0.05,nonsense,0.99:0.001",
        "--metrics-config=counter_latencies=false",
        "--cache-config=local,size=1048576",
    )
    with runtime(repository, log, "--load-model=*", *options) as running:
        yield running


def scrape(server) -> dict[str, float]:
    """Every series with its value."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(value) for series, _, value in samples}


def labelled(name: str, model: str, **more: str) -> str:
    labels = {"model": model, "version": "1", **more}
    return name + "{" + ",".join(f'{key}="{labels[key]}"' for key in sorted(labels)) + "}"


def ask_simple(client: Client, model="simple", width=16):
    ones = np.ones((1, width), np.int32)
    return client.ask(model, {"INPUT0": ones, "INPUT1": ones})


def ask_echo(client: Client, model: str, value=1.0):
    return client.ask(model, {"INPUT0": np.full((1, 4), value, np.float32)})


def test_check_182_counts_begin_at_0_and_follow_a_request(server, client):
    model = f"simple_{client.kind}"
    before = statistics_of(client, model)
    assert all(count_of(before, name) == 0 for name in ("success", "fail", *DURATIONS))
    assert int(before.get("inference_count", 0)) == int(before.get("execution_count", 0)) == 0
    assert before.get("batch_stats", []) == []
    ask_simple(client, model)
    after = statistics_of(client, model)
    assert all(count_of(after, name) == 1 for name in ("success", *DURATIONS))
    assert count_of(after, "fail") == 0
    assert int(after["inference_count"]) == int(after["execution_count"]) == 1
    for name in ("success", *DURATIONS):
        assert int(after["inference_stats"][name]["ns"]) > 0
    (batch,) = after["batch_stats"]
    assert int(batch["batch_size"]) == 1
    assert all(int(batch[name]["count"]) == 1 for name in DURATIONS[1:])
    assert abs(int(after["last_inference"]) / 1000 - time.time()) < 60
    other = Client(server, "grpc" if client.over_http else "http")
    assert plain(statistics_of(other, model)) == plain(after)
    other.close()


def plain(value):
    """Without what gRPC leaves out because it is 0, and with its texts as numbers."""
    if isinstance(value, dict):
        found = {key: plain(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (0, {}, [])}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def test_check_183_unknown_models_and_versions_are_the_callers_mistake(server, client):
    for arguments, text in (
        (("nobody",), "requested model 'nobody' is not available"),
        (("simple", "7"), "requested model version is not available for model 'simple'"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.get_inference_statistics(*arguments)
        assert text in caught.value.message()
        assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_check_184_all_ready_versions_or_the_one_that_is_asked_for(client):
    def listed(*arguments):
        answer = client.names(client.get_inference_statistics(*arguments))
        return [(entry["name"], entry["version"]) for entry in answer["model_stats"]]

    everything = listed()
    assert everything == sorted(everything)
    assert {("simple", "1"), ("versions", "1"), ("versions", "2")} <= set(everything)
    assert listed("versions") == [("versions", "1"), ("versions", "2")]
    assert listed("versions", "2") == [("versions", "2")]


def test_check_186_what_is_refused_at_the_door_is_in_no_statistic(client):
    before = statistics_of(client, "simple")
    with pytest.raises(InferenceServerException):
        ask_simple(client, width=3)
    after = statistics_of(client, "simple")
    assert [count_of(after, name) for name in ("success", "fail")] == [
        count_of(before, name) for name in ("success", "fail")
    ]


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_what_can_not_be_read_is_counted_once_and_fails_no_model(server, kind):
    before, faults = scrape(server), client_faults(server)
    send_unreadable(server, kind)
    server.wait_for(lambda: client_faults(server) == faults + 1, "the request to be counted")
    after = scrape(server)
    for name in ("nv_inference_request_failure", "nv_inference_request_success"):
        assert all(after[series] == before[series] for series in after if series.startswith(name))


def test_check_187_every_default_family_is_there_with_its_labels_in_order(server):
    samples = scrape(server)
    for name in OF_A_MODEL:
        assert labelled(name, "versions") in samples, name
    for reason in REASONS:
        series = f'nv_inference_request_failure{{model="versions",reason="{reason}",version="1"}}'
        assert samples[series] == 0
    for name in OF_THE_MACHINE:
        assert name in samples, name


def test_check_187_series_come_and_go_with_the_model(server):
    series = labelled("nv_inference_count", "versions")
    client = Client(server, "http")
    client.unload_model("versions")
    assert series not in scrape(server)
    client.load_model("versions")
    assert scrape(server)[series] == 0
    client.close()


def test_check_187_other_methods_are_refused(server):
    request = urllib.request.Request(f"http://{server.metrics}/metrics", data=b"", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    with caught.value as refused:
        assert refused.code == 405


def names_of(samples, model: str) -> set[str]:
    return {series.partition("{")[0] for series in samples if f'model="{model}"' in series}


def test_check_188_histograms_and_summaries_are_off_unless_asked_for(server):
    found = names_of(scrape(server), "simple")
    assert not any("_histogram_ms" in name or "_summary_us" in name for name in found)


def test_check_188_histograms_and_summaries_with_the_quantiles_asked_for(detailed):
    client = Client(detailed, "grpc")
    ask_simple(client)
    client.close()
    samples = scrape(detailed)
    for name in SUMMARIES:
        for quantile in ("0.5", "0.99"):
            assert labelled(name, "simple")[:-1] + f',quantile="{quantile}"}}' in {
                re.sub(r'(.*)(,quantile="[^"]*")(.*)}', r"\1\3\2}", series) for series in samples
            }
        assert samples[labelled(name + "_count", "simple")] >= 1
    assert not any('quantile="0.9"' in series for series in samples)
    assert samples[labelled(HISTOGRAM + "_count", "simple")] >= 1


def test_check_188_counter_latencies_off_removes_the_durations_and_nothing_else(detailed):
    client = Client(detailed, "http")
    ask_simple(client)
    client.close()
    samples = scrape(detailed)
    assert not any(labelled(name, "simple") in samples for name in DURATION_COUNTERS)
    assert "nv_cache_hit_duration_per_model" not in names_of(samples, "cached")
    assert samples[labelled("nv_inference_count", "simple")] >= 1


def test_check_189_families_of_the_cache_are_there_where_it_is_active(detailed):
    client = Client(detailed, "grpc")
    for value in (5.0, 5.0, 6.0):
        ask_echo(client, "cached", value)
    client.close()
    samples = scrape(detailed)
    assert samples[labelled("nv_cache_num_hits_per_model", "cached")] == 1
    assert samples[labelled("nv_cache_num_misses_per_model", "cached")] == 2
    assert samples[labelled("nv_cache_hit_summary_per_model_count", "cached")] == 1
    assert samples[labelled("nv_cache_miss_summary_per_model_count", "cached")] == 2
    assert samples[labelled("nv_inference_request_success", "cached")] == 3
    assert samples[labelled("nv_inference_count", "cached")] == 2
    assert not any(
        "nv_inference_request_summary_us" in name for name in names_of(samples, "cached")
    )
    assert any("nv_inference_queue_summary_us" in name for name in names_of(samples, "cached"))
    assert not any(name.startswith("nv_cache") for name in names_of(samples, "simple"))
    assert samples["nv_cache_num_entries"] == 2
    assert samples["nv_cache_num_lookups"] == samples["nv_cache_num_hits"] + 2 == 3
    assert 0 < samples["nv_cache_util"] < 1
    assert samples["nv_cache_insertion_duration"] >= 0


def test_check_189_a_server_without_a_cache_has_none_of_them(server):
    assert not any(series.startswith("nv_cache") for series in scrape(server))


def buckets(samples, model: str) -> dict[str, float]:
    return {
        bound: samples[series]
        for series in samples
        if series.startswith(HISTOGRAM + "_bucket") and f'model="{model}"' in series
        for bound in re.findall(r'le="([^"]*)"', series)
    }


def test_check_190_first_responses_are_counted_once_in_buckets_printed_as_given(detailed):
    client = Client(detailed, "http")
    ask_echo(client, "buckets")
    client.close()
    samples = scrape(detailed)
    found = buckets(samples, "buckets")
    assert list(found) == ["-1", "0", "1", "2.5", "+Inf"]
    assert (found["-1"], found["+Inf"]) == (0, 1)
    assert list(buckets(samples, "default")) == ["100", "500", "2000", "5000", "+Inf"]


def test_check_190_a_decoupled_request_counts_once_whatever_its_number_of_responses(detailed):
    before = scrape(detailed)[labelled(HISTOGRAM + "_count", "repeat")]
    with detailed.grpc_client() as client, open_stream(client) as stream:
        stream.repeat([1, 2, 3])
        stream.results(3)
    detailed.wait_for(
        lambda: scrape(detailed)[labelled(HISTOGRAM + "_count", "repeat")] == before + 1,
        "the end of the request",
    )


def test_check_190_an_ensemble_counts_once_beside_its_model(detailed):
    series = [labelled(HISTOGRAM + "_count", model) for model in ("whole", "default")]
    before = scrape(detailed)
    client = Client(detailed, "http")
    client.ask("whole", {"IN": np.ones((1, 4), np.float32)})
    client.close()
    after = scrape(detailed)
    assert [after[name] - before[name] for name in series] == [1, 1]


def pending_values(server, model: str) -> tuple[list[float], int]:
    """What the gauge read while ten requests went through, from its height on; and how many failed."""
    series = labelled("nv_inference_pending_request_count", model)
    tensor = grpcclient.InferInput("INPUT0", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
    ended: list[bool] = []
    values: list[float] = []
    with server.grpc_client() as client:
        for _ in range(10):
            client.async_infer(model, [tensor], lambda result, error: ended.append(error is None))
        while len(ended) < 10 or values[-1:] != [0]:
            value = scrape(server)[series]
            if values[-1:] != [value]:
                values.append(value)
            time.sleep(0.005)
    return values[values.index(max(values)) :], ended.count(False)


def test_check_191_pending_requests_of_the_default_scheduler(server):
    values, failed = pending_values(server, "default")
    assert (values[0], values[-1]) == (9, 0)
    assert values == sorted(values, reverse=True)
    assert failed == 0


def test_check_191_pending_requests_of_the_dynamic_batcher(server):
    values, failed = pending_values(server, "batched")
    assert values == [6, 2, 0]
    assert failed == 0


def test_check_191_pending_requests_of_a_bounded_queue(server):
    values, failed = pending_values(server, "bounded")
    assert values == [4, 0]
    assert failed == 2


def test_check_191_requests_of_an_ensemble_are_pending_at_its_models(server):
    whole, model = (
        labelled("nv_inference_pending_request_count", name) for name in ("whole", "default")
    )
    tensor = grpcclient.InferInput("IN", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
    ended: list[bool] = []
    seen: set[tuple[float, float]] = set()
    with server.grpc_client() as client:
        for _ in range(5):
            client.async_infer("whole", [tensor], lambda result, error: ended.append(error is None))
        while len(ended) < 5:
            samples = scrape(server)
            seen.add((samples[whole], samples[model]))
    assert all(ended)
    assert {pending for pending, _ in seen} == {0}
    assert max(pending for _, pending in seen) >= 3


def test_check_192_gauges_of_the_machine(server):
    first = scrape(server)
    assert first["nv_pinned_memory_pool_total_bytes"] == 1_048_576
    assert first["nv_pinned_memory_pool_used_bytes"] == 0
    assert 0 < first["nv_cpu_memory_used_bytes"] < first["nv_cpu_memory_total_bytes"]
    client = Client(server, "grpc")
    seen = set()
    for _ in range(20):
        for _ in range(20):
            ask_simple(client)
        seen.add(scrape(server)["nv_cpu_utilization"])
    assert all(0 <= value <= 1 for value in seen)
    assert len(seen) > 1 or seen == {1.0}  # all cores busy with something else
    client.close()


def test_check_193_tags_are_labels_and_there_is_no_namespace(server):
    samples = scrape(server)
    assert 'nv_inference_count{_team="vision",model="tagged",version="1"}' in samples
    assert not any("namespace=" in series for series in samples)


def test_batch_sizes_and_busy_instances_are_told(server):
    client = Client(server, "http")
    ones = np.ones((4, 16), np.int32)
    before = scrape(server)
    client.ask("simple", {"INPUT0": ones, "INPUT1": ones})
    client.close()
    after = scrape(server)
    total = labelled("runtime_batch_size_sum", "simple")
    assert after[total] == before[total] + 4

    def busy(samples):
        return sum(
            value
            for series, value in samples.items()
            if series.startswith("runtime_instance_busy_seconds_total") and '"simple"' in series
        )

    assert busy(after) > busy(before)
