"""A stock Triton: the sampler falls back to totals, and says what they cannot tell."""

from typing import Any

import pytest

from tests.webapp.telemetry.test_sampler import Tick, seconds_of
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.errors import RuntimeLacks, RuntimeUnreachable
from webapp.runtime_client.metrics_text import parse_metrics
from webapp.runtime_client.types import STATISTICS, VersionStatistics
from webapp.serving.models import Runtime
from webapp.telemetry.foreign import NOTES, reading_of_foreign
from webapp.telemetry.models import RuntimeSample, ServingSample
from webapp.telemetry.readings import ArmKey
from webapp.telemetry.selectors import serving_series
from webapp.telemetry.totals import NO_HISTOGRAM

METRICS = """
nv_inference_request_success{model="densenet",version="1"} 40
nv_inference_request_failure{model="densenet",reason="REJECTED",version="1"} 3
nv_inference_request_failure{model="densenet",reason="BACKEND",version="1"} 2
nv_inference_request_failure{model="densenet",reason="CANCELED",version="1"} 1
nv_inference_pending_request_count{model="densenet",version="1"} 7
nv_gpu_utilization{gpu_uuid="GPU-a"} 0.4
nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 1000
nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 8000
nv_gpu_power_usage{gpu_uuid="GPU-a"} 70.5
"""


def statistics(successes: int, *, fails: int = 6) -> VersionStatistics:
    return VersionStatistics(
        model="densenet",
        version=1,
        inference_count=successes * 2,
        execution_count=successes,
        success_count=successes,
        success_ns=successes * 5_000_000,
        fail_count=fails,
        queue_ns=successes * 1_000_000,
        compute_input_ns=successes * 100_000,
        compute_infer_ns=successes * 3_000_000,
        compute_output_ns=successes * 200_000,
    )


def test_failures_are_told_apart_by_their_reason() -> None:
    reading = reading_of_foreign([statistics(40)], parse_metrics(METRICS), at_ns=1)
    counts = reading.arms[ArmKey("densenet", 1, "default")].counts
    assert counts["requests"] == 46
    assert (counts["rejections"], counts["failures"], counts["cancellations"]) == (3, 2, 1)
    assert counts["compute_ns"] == 40 * 3_300_000
    assert reading.versions["densenet", 1].pending == 7
    assert reading.versions["densenet", 1].inflight is None


def test_gpus_come_from_its_metrics() -> None:
    reading = reading_of_foreign([], parse_metrics(METRICS), at_ns=1)
    assert reading.gpus == (
        {"uuid": "GPU-a", "utilization": 0.4, "memory_used_bytes": 1000.0,
         "memory_total_bytes": 8000.0, "power_watts": 70.5, "index": 0},
    )  # fmt: skip
    assert reading.gpu_note == ""
    assert reading.notes == NOTES


@pytest.mark.parametrize(
    ("metrics", "note"),
    [([], "its /metrics names no GPU"), (None, "this runtime was added without a metrics address")],
)
def test_missing_gpus_have_a_reason(metrics: Any, note: str) -> None:
    reading = reading_of_foreign([statistics(1)], metrics, at_ns=1)
    assert reading.gpu_note.startswith(note)


def test_without_metrics_every_failure_is_a_fault() -> None:
    reading = reading_of_foreign([statistics(40)], None, at_ns=1)
    assert reading.arms[ArmKey("densenet", 1, "default")].counts["failures"] == 6


class Triton:
    """Only what the sampler asks of a runtime without our extension."""

    def __init__(self) -> None:
        self.successes = 40
        self.metrics = METRICS
        self.asked_for_ours = 0
        self.metrics_down = False

    def switchyard_statistics(self, *, timeout: float | None = None) -> dict[str, Any]:
        self.asked_for_ours += 1
        raise RuntimeLacks(STATISTICS)

    def statistics(self, *, timeout: float | None = None) -> list[VersionStatistics]:
        return [statistics(self.successes)]

    def metrics_text(self, *, timeout: float | None = None) -> str:
        if self.metrics_down:
            raise RuntimeUnreachable("127.0.0.1:8002: Connection refused")
        return self.metrics


@pytest.fixture
def triton(db: None) -> Any:
    Runtime.objects.create(
        name="triton",
        http_address="127.0.0.1:1",
        grpc_address="triton:1",
        metrics_address="127.0.0.1:2",
    )
    one = Triton()
    stand_in("triton:1", one)  # type: ignore[arg-type]
    yield one
    stand_in("triton:1", None)


def test_its_traffic_is_sampled_without_percentiles(triton: Triton, tick: Tick) -> None:
    tick()
    triton.successes += 10
    at = tick()
    sample = seconds_of(ServingSample).get(at=at)
    assert (sample.requests, sample.inferences, sample.executions) == (10, 20, 10)
    assert sample.latency == {}
    runtime_sample = seconds_of(RuntimeSample).get(at=at)
    assert (runtime_sample.cpu_percent, runtime_sample.memory_bytes) == (None, None)
    assert runtime_sample.notes == NOTES
    series = serving_series(metric="latency_p99_ms", range_name="5m")
    assert series["items"][0]["reason"] == NO_HISTOGRAM
    assert {value for _, value in series["items"][0]["points"]} == {None}


def test_it_is_not_asked_for_our_extension_again_and_again(triton: Triton, tick: Tick) -> None:
    for _ in range(3):
        tick()
    assert triton.asked_for_ours == 1


def test_reading_without_its_metrics_does_not_count(triton: Triton, tick: Tick) -> None:
    tick()
    triton.metrics_down = True
    triton.successes += 5
    tick()
    triton.metrics_down = False
    at = tick()
    assert seconds_of(ServingSample).get(at=at).requests == 5
