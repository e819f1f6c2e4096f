from datetime import timedelta

from hypothesis import given, strategies as st

from inference_runtime.spec.latency import bucket_of, percentile_ns
from tests.webapp.telemetry.conftest import NOW
from webapp.serving.models import Runtime
from webapp.telemetry.models import EventMark, RuntimeSample, ServingSample
from webapp.telemetry.readings import COUNTERS
from webapp.telemetry.rollups import (
    bucket_end,
    events_prune,
    samples_prune,
    samples_roll_up,
    serving_merged,
)


def seen(runtime: Runtime, second: int, **fields: object) -> None:
    at = NOW + timedelta(seconds=second)
    RuntimeSample.objects.create(at=at, seconds=1, runtime=runtime, span_ms=1000, **fields)


def served(runtime: Runtime, second: int, **fields: object) -> None:
    at = NOW + timedelta(seconds=second)
    ServingSample.objects.create(
        at=at, seconds=1, runtime=runtime, model_name="resnet50", version=1, **fields
    )


def test_ten_seconds_become_one_sample_with_peaks_and_merged_latencies(row: Runtime) -> None:
    for second in range(1, 11):
        seen(row, second, cpu_percent=10.0 * second, memory_bytes=second)
    served(row, 1, arm="stable", requests=3, pending=5, latency={"40": 3})
    served(row, 10, arm="stable", requests=4, pending=2, latency={"40": 1, "50": 3})
    served(row, 11, arm="stable", requests=100)

    assert samples_roll_up(now=NOW + timedelta(seconds=13)) == 1
    sample = ServingSample.objects.get(seconds=10)
    assert (sample.at, sample.requests, sample.pending) == (NOW + timedelta(seconds=10), 7, 5)
    assert sample.latency == {"40": 4, "50": 3}
    runtime_sample = RuntimeSample.objects.get(seconds=10)
    assert (runtime_sample.span_ms, runtime_sample.memory_bytes) == (10_000, 10)
    assert runtime_sample.cpu_percent == 55


def test_rolling_up_again_changes_nothing(row: Runtime) -> None:
    for second in range(1, 71):
        seen(row, second)
        served(row, second, requests=1)
    late = NOW + timedelta(seconds=90)
    assert samples_roll_up(now=late) > 0
    while samples_roll_up(now=late):
        pass
    assert ServingSample.objects.filter(seconds=10).count() == 7
    minute = ServingSample.objects.get(seconds=60)
    assert (minute.at, minute.requests) == (NOW + timedelta(seconds=60), 60)


def test_interval_that_is_not_over_waits(row: Runtime) -> None:
    seen(row, 3)
    assert samples_roll_up(now=NOW + timedelta(seconds=10)) == 0
    assert samples_roll_up(now=NOW + timedelta(seconds=12)) == 1


def test_gpus_are_merged_per_device(row: Runtime) -> None:
    for second, use in ((1, 0.2), (2, 0.6)):
        gpu = {"uuid": "GPU-1", "utilization": use, "memory_used_bytes": int(use * 100)}
        seen(row, second, gpus=[gpu])
    samples_roll_up(now=NOW + timedelta(seconds=12))
    assert RuntimeSample.objects.get(seconds=10).gpus == [
        {"uuid": "GPU-1", "utilization": 0.4, "memory_used_bytes": 60, "power_watts": None,
         "temperature_celsius": None}
    ]  # fmt: skip


def test_bucket_holds_its_end_but_not_its_start() -> None:
    assert bucket_end(NOW, 10) == NOW
    assert bucket_end(NOW + timedelta(seconds=1), 10) == NOW + timedelta(seconds=10)


def test_prunes_each_resolution_by_its_own_age_in_batches(row: Runtime) -> None:
    for seconds, age in ((1, 20), (1, 10), (10, 20), (60, 20)):
        at = NOW - timedelta(minutes=age)
        RuntimeSample.objects.create(at=at, seconds=seconds, runtime=row)
    assert samples_prune(now=NOW) == 1
    assert RuntimeSample.objects.count() == 3

    for second in range(5):
        served(row, -3600 - second)
    assert samples_prune(now=NOW, rows=3) == 3
    assert samples_prune(now=NOW, rows=3) == 2


def test_old_marks_go(row: Runtime) -> None:
    EventMark.objects.create(kind="load", text="loaded")
    assert events_prune() == 0
    EventMark.objects.update(at=NOW - timedelta(days=200))
    assert events_prune(now=NOW) == 1


counts = st.fixed_dictionaries({name: st.integers(0, 10**6) for name in COUNTERS})
latencies = st.lists(st.integers(1, 10**10), max_size=30)
samples = st.lists(
    st.tuples(st.sampled_from(["stable", "canary"]), st.integers(1, 3), counts, latencies),
    max_size=20,
)


@given(samples)
def test_merging_never_loses_a_count(
    drawn: list[tuple[str, int, dict[str, int], list[int]]],
) -> None:
    rows = []
    for arm, version, fields, measured in drawn:
        latency: dict[str, int] = {}
        for value in measured:
            bucket = str(bucket_of(value))
            latency[bucket] = latency.get(bucket, 0) + 1
        rows.append(
            ServingSample(
                runtime_id=1, model_name="m", version=version, arm=arm, latency=latency, **fields
            )
        )
    merged = serving_merged(rows, seconds=10, at=NOW)
    for name in COUNTERS:
        assert sum(getattr(s, name) for s in merged) == sum(getattr(s, name) for s in rows)
    assert sum(sum(s.latency.values()) for s in merged) == sum(len(m) for *_, m in drawn)


@given(st.lists(latencies, min_size=1, max_size=10), st.floats(0.01, 0.99))
def test_percentiles_of_merged_seconds_are_those_of_all_requests(
    seconds: list[list[int]], quantile: float
) -> None:
    def histogram(values: list[int]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for value in values:
            counts[str(bucket_of(value))] = counts.get(str(bucket_of(value)), 0) + 1
        return counts

    rows = [
        ServingSample(runtime_id=1, model_name="m", version=1, latency=histogram(values))
        for values in seconds
    ]
    (merged,) = serving_merged(rows, seconds=10, at=NOW)
    everything = histogram([value for values in seconds for value in values])
    assert percentile_ns({int(b): n for b, n in merged.latency.items()}, quantile) == (
        percentile_ns({int(b): n for b, n in everything.items()}, quantile)
    )
