"""Protocol 6.3 to 6.5, 9.12 rows 187, 188, 190: the text of /metrics."""

import re
from pathlib import Path

import pytest

from inference_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    RuntimeFault,
    Unavailable,
)
from inference_runtime.telemetry.cache_stats import CacheCounters
from inference_runtime.telemetry.gpu import GpuMonitor
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.snapshot import SlotPool, TrafficShare
from inference_runtime.telemetry.stats import Gauges
from inference_runtime.telemetry.telemetry import FAMILIES, Telemetry
from tests.inference_runtime.telemetry.world import MS, PretendNvml, Served, request_of

COUNTERS = (
    "nv_inference_request_success",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)


class Scrape:
    """The metrics of a served version, line by line."""

    def __init__(self, options: MetricsOptions | None = None, **model: str) -> None:
        self.telemetry = Telemetry(options, gpu=GpuMonitor(load_nvml=lambda: PretendNvml()))
        self.served = Served(options, **model)
        self.telemetry.registry = self.served.registry

    def lines(self) -> list[str]:
        return self.telemetry.metrics_text().decode().split("\n")

    def value(self, series: str) -> str:
        (line,) = [line for line in self.lines() if line.startswith(series + " ")]
        return line.removeprefix(series + " ")

    def has(self, name: str) -> bool:
        return any(line.startswith(name) for line in self.lines())


def test_187_every_default_series_exists_at_0_when_a_version_is_loaded():
    scrape = Scrape()
    for name in (*COUNTERS, "nv_inference_pending_request_count"):
        assert scrape.value(f'{name}{{model="m",version="1"}}') == "0"
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        series = f'nv_inference_request_failure{{model="m",reason="{reason}",version="1"}}'
        assert scrape.value(series) == "0"
    assert scrape.value('nv_model_load_duration_secs{model="m",version="1"}') == "0.25"


def test_counters_follow_requests_and_durations_are_whole_microseconds():
    scrape = Scrape()
    scrape.served.execute(request_of(rows=1), request_of(rows=8))
    expected = (2, 9, 1, 22_000, 2_000, 4_000, 6_000, 8_000)
    for name, value in zip(COUNTERS, expected, strict=True):
        assert scrape.value(f'{name}{{model="m",version="1"}}') == str(value)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (DeadlineExceeded("Request timeout expired"), "REJECTED"),
        (Cancelled(""), "CANCELED"),
        (Internal("broken"), "BACKEND"),
        (InvalidArgument("the model says no"), "BACKEND"),
        (RuntimeFault("?"), "OTHER"),
    ],
)
def test_135_a_failure_counts_once_under_tritons_reason(fault, reason):
    scrape = Scrape()
    scrape.served.fail(fault)
    values = {
        name: scrape.value(f'nv_inference_request_failure{{model="m",reason="{name}",version="1"}}')
        for name in ("REJECTED", "CANCELED", "BACKEND", "OTHER")
    }
    assert values.pop(reason) == "1"
    assert set(values.values()) == {"0"}


def test_a_refusal_at_the_door_is_counted_once_and_a_clients_fault_is_no_failure():
    scrape = Scrape()
    scrape.served.stats.refused(request_of(), Unavailable("Exceeds maximum queue size"))
    scrape.served.stats.refused(request_of(), InvalidArgument("bad shape"))
    failures = [
        line.rpartition(" ")[2]
        for line in scrape.lines()
        if line.startswith("nv_inference_request_failure{")
    ]
    assert sorted(failures) == ["0", "0", "0", "1"]
    series = 'runtime_requests_total{arm="",model="m",outcome="%s",version="1"}'
    assert scrape.value(series % "rejected") == "1"
    assert scrape.value(series % "client_fault") == "1"


def test_193_labels_are_in_alphabetical_order_tags_and_gpus_included():
    scrape = Scrape(more='metric_tags { key: "team" value: "a\\"b" }')
    scrape.served.execute(request_of(), gpu=1)
    line = 'nv_inference_request_success{_team="a\\"b",gpu_uuid="1",model="m",version="1"}'
    assert scrape.value(line) == "1"
    assert scrape.value('nv_inference_request_success{_team="a\\"b",model="m",version="1"}') == "0"


def test_series_go_with_the_version_and_the_arms_stay():
    scrape = Scrape()
    scrape.served.execute(request_of("stable"))
    scrape.served.registry.retire(scrape.served.stats)
    assert not scrape.has("nv_inference")
    assert scrape.has('runtime_requests_total{arm="stable"')


def test_188_histograms_and_summaries_are_off_by_default():
    scrape = Scrape()
    scrape.served.execute(request_of())
    assert not any("_histogram_ms" in line or "_summary_us" in line for line in scrape.lines())


def test_188_summaries_appear_with_the_quantiles_asked_for():
    scrape = Scrape(MetricsOptions(summary_latencies=True, quantiles=(0.5, 0.99)))
    for _ in range(10):
        scrape.served.execute(request_of())
    name = "nv_inference_request_summary_us"
    value = float(scrape.value(f'{name}{{model="m",version="1",quantile="0.99"}}'))
    assert value == pytest.approx(11_000, rel=0.1)
    assert scrape.value(f'{name}_count{{model="m",version="1"}}') == "10"
    assert scrape.value(f'{name}_sum{{model="m",version="1"}}') == "110000"
    for part in ("queue", "compute_input", "compute_infer", "compute_output"):
        assert scrape.has(f'nv_inference_{part}_summary_us{{model="m",version="1",quantile="0.5"}}')


def test_188_counter_latencies_off_removes_the_durations_and_nothing_else():
    scrape = Scrape(MetricsOptions(counter_latencies=False))
    scrape.served.execute(request_of())
    assert not any("_duration_us" in line for line in scrape.lines())
    assert scrape.value('nv_inference_request_success{model="m",version="1"}') == "1"


def test_190_the_first_response_histogram_counts_good_and_bad_requests():
    scrape = Scrape(MetricsOptions(histogram_latencies=True))
    scrape.served.execute(request_of())
    scrape.served.fail(Internal("broken"))
    name = "nv_inference_first_response_histogram_ms"
    bounds = [
        re.search(r'le="([^"]+)"', line)[1]
        for line in scrape.lines()
        if line.startswith(name + "_bucket")
    ]
    assert bounds == ["100", "500", "2000", "5000", "+Inf"]
    assert scrape.value(f'{name}_bucket{{model="m",version="1",le="100"}}') == "2"
    assert scrape.value(f'{name}_count{{model="m",version="1"}}') == "2"
    assert scrape.value(f'{name}_sum{{model="m",version="1"}}') == "16"


def test_190_a_configs_own_buckets_are_printed_as_given():
    buckets = "".join(f"buckets: {bound} " for bound in (-1, 0.0, 1, 2.5))
    scrape = Scrape(
        MetricsOptions(histogram_latencies=True),
        more="model_metrics { metric_control { metric_identifier { family: "
        f'"nv_inference_first_response_histogram_ms" }} histogram_options {{ {buckets} }} }} }}',
    )
    lines = [line for line in scrape.lines() if "_histogram_ms_bucket" in line]
    assert [re.search(r'le="([^"]+)"', line)[1] for line in lines] == [
        "-1", "0", "1", "2.5", "+Inf",
    ]  # fmt: skip


def test_gauges_are_read_when_asked():
    scrape = Scrape()
    scrape.served.stats.gauges = lambda: Gauges(pending=4, inflight=6, instances=2, busy=1)
    labels = '{model="m",version="1"}'
    assert scrape.value("nv_inference_pending_request_count" + labels) == "4"
    assert scrape.value("runtime_inflight_requests" + labels) == "6"
    assert scrape.value("runtime_instances" + labels) == "2"
    assert scrape.value("runtime_instances_busy" + labels) == "1"


def test_192_the_machines_gauges_are_in_sensible_ranges():
    scrape = Scrape()
    assert 0 <= float(scrape.value("nv_cpu_utilization")) <= 1
    total = float(scrape.value("nv_cpu_memory_total_bytes"))
    assert 0 < float(scrape.value("nv_cpu_memory_used_bytes")) < total
    assert float(scrape.value("runtime_process_memory_bytes")) > 1_000_000


def test_192_the_pinned_pool_is_as_large_as_the_option_says_and_not_in_use():
    scrape = Scrape(MetricsOptions(pinned_pool_bytes=4096))
    assert scrape.value("nv_pinned_memory_pool_total_bytes") == "4096"
    assert scrape.value("nv_pinned_memory_pool_used_bytes") == "0"


def test_189_a_version_with_the_cache_has_its_families_and_no_request_summary():
    scrape = Scrape(MetricsOptions(summary_latencies=True))
    labels = '{model="m",version="1"}'
    assert not scrape.has("nv_cache")
    assert scrape.has("nv_inference_request_summary_us")
    stats = scrape.served.stats
    stats.use_cache()
    scrape.served.execute(request_of("stable"))
    stats.missed_cache(2 * MS, 1 * MS)
    stats.answered_from_cache(request_of("stable"), (1 * MS, 3 * MS), 4 * MS)
    assert scrape.value("nv_cache_num_hits_per_model" + labels) == "1"
    assert scrape.value("nv_cache_num_misses_per_model" + labels) == "1"
    assert scrape.value("nv_cache_hit_duration_per_model" + labels) == "2000"
    assert scrape.value("nv_cache_miss_duration_per_model" + labels) == "3000"
    assert scrape.value("nv_cache_hit_summary_per_model_count" + labels) == "1"
    assert scrape.value("nv_cache_miss_summary_per_model_sum" + labels) == "3000"
    assert not scrape.has("nv_inference_request_summary_us")
    assert scrape.value("nv_inference_queue_summary_us_count" + labels) == "2"
    assert scrape.value("nv_inference_compute_infer_summary_us_count" + labels) == "1"
    assert scrape.value("nv_inference_request_success" + labels) == "2"
    assert scrape.value("nv_inference_count" + labels) == "1"
    # 11 ms to the answer of the model, 1 to keep it, 4 to the answer of the cache.
    assert scrape.value("nv_inference_request_duration_us" + labels) == "16000"


def test_the_whole_cache_has_gauges_without_labels():
    scrape = Scrape()
    scrape.telemetry.cache = CacheCounters(
        1000, used_bytes=250, entries=2, lookups=5, hits=2, misses=3, lookup_ns=5000
    )
    assert scrape.value("nv_cache_util") == "0.25"
    assert scrape.value("nv_cache_num_entries") == "2"
    assert scrape.value("nv_cache_num_lookups") == "5"
    assert scrape.value("nv_cache_num_hits") == "2"
    assert scrape.value("nv_cache_num_misses") == "3"
    assert scrape.value("nv_cache_num_evictions") == "0"
    assert scrape.value("nv_cache_lookup_duration") == "5"
    assert scrape.value("nv_cache_insertion_duration") == "0"


def test_slots_have_a_series_per_pool():
    scrape = Scrape()
    assert not scrape.has("runtime_slots")
    scrape.telemetry.slots = lambda: [SlotPool("R", "gpu:0", capacity=4, in_use=3, waiting=2)]
    labels = '{device="gpu:0",pool="R"}'
    assert scrape.value("runtime_slots_capacity" + labels) == "4"
    assert scrape.value("runtime_slots_in_use" + labels) == "3"
    assert scrape.value("runtime_slots_waiting" + labels) == "2"


def test_an_instance_tells_how_long_it_was_busy():
    scrape = Scrape()
    spec = next(scrape.served.config.instances())
    scrape.served.stats.instance(spec).busy_ns += 1_500_000_000
    series = (
        'runtime_instance_busy_seconds_total{device="cpu",instance="m_0",model="m",version="1"}'
    )
    assert scrape.value(series) == "1.5"


def test_gpus_have_one_series_each_and_leave_out_what_they_do_not_know():
    scrape = Scrape()
    scrape.telemetry.gpu.read()
    assert scrape.value('nv_gpu_utilization{gpu_uuid="GPU-0"}') == "0.4"
    assert scrape.value('nv_gpu_power_usage{gpu_uuid="GPU-0"}') == "75.5"
    assert scrape.value('nv_gpu_power_limit{gpu_uuid="GPU-1"}') == "300"
    assert scrape.value('nv_energy_consumption{gpu_uuid="GPU-0"}') == "0"
    assert scrape.value('runtime_gpu_temperature_celsius{gpu_uuid="GPU-1"}') == "51"
    assert not scrape.has('nv_gpu_power_usage{gpu_uuid="GPU-1"}')


def test_gpu_and_cpu_metrics_can_be_switched_off():
    scrape = Scrape(MetricsOptions(gpu=False, cpu=False))
    scrape.telemetry.gpu.read()
    assert not scrape.has("nv_gpu")
    assert not scrape.has("nv_cpu")


def test_batch_sizes_are_a_histogram_of_powers_of_two():
    scrape = Scrape()
    for rows in (1, 2, 3, 8):
        scrape.served.execute(request_of(rows=rows))
    name = "runtime_batch_size"
    labels = 'model="m",version="1"'
    counts = [scrape.value(f'{name}_bucket{{{labels},le="{bound}"}}') for bound in (1, 2, 4, 8, 16)]
    assert counts == ["1", "2", "3", "4", "4"]
    assert scrape.value(f"{name}_sum{{{labels}}}") == "14"


def test_coarse_latency_buckets_keep_every_request():
    scrape = Scrape()
    scrape.served.execute(request_of("stable"), request_of("stable"))
    labels = 'arm="stable",model="m",version="1"'
    name = "runtime_request_latency_seconds"
    assert scrape.value(f'{name}_bucket{{{labels},le="+Inf"}}') == "2"
    below = [
        line.rpartition(" ")[2] for line in scrape.lines() if line.startswith(name + "_bucket")
    ]
    assert sorted(set(below)) == ["0", "2"]
    assert scrape.value(f"{name}_sum{{{labels}}}") == "0.022"


def test_shares_come_from_whoever_splits_the_traffic():
    scrape = Scrape()
    scrape.telemetry.traffic = lambda: [TrafficShare("m", 4, "canary", 0.05)]
    assert scrape.value('runtime_traffic_share{arm="canary",model="m",version="4"}') == "0.05"


def test_every_family_is_introduced_once_and_ends_with_a_newline():
    scrape = Scrape(MetricsOptions(histogram_latencies=True, summary_latencies=True))
    scrape.served.execute(request_of("stable"))
    text = scrape.telemetry.metrics_text().decode()
    names = re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram|summary)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert re.findall(r"^# HELP (\S+) \S.*$", text, re.MULTILINE) == names
    assert text.endswith("\n")


DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_family_is_documented_with_its_type():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", DOCS.read_text(), re.MULTILINE))
    # Those that instances with a process of their own report, as models report theirs.
    of_processes = {
        "nv_python_stub_restarts_total": "counter",
        "runtime_python_process_memory_bytes": "gauge",
    }
    assert rows == {family.name: family.kind for family in FAMILIES} | of_processes
