import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection

from tests.fakes.counting_runtime import CountingRuntime
from webapp.serving.models import Runtime
from webapp.telemetry.lease import lease_take
from webapp.telemetry.models import EventMark, RuntimeSample, SamplerLease, ServingSample
from webapp.telemetry.sampler import Sampler, seconds_to_next, whole_second

Tick = Callable[[], datetime]


def seconds_of(table: type[ServingSample] | type[RuntimeSample]) -> Any:
    """The samples of one second, without what was rolled up meanwhile."""
    return table.objects.filter(seconds=1).order_by("at")


def test_writes_what_each_second_served(runtime: CountingRuntime, tick: Tick) -> None:
    runtime.serve("resnet50", 1, requests=90)
    tick()
    runtime.serve("resnet50", 1, requests=12, latency_ms=8, timeouts=2)
    runtime.pending["resnet50", 1] = 3
    at = tick()
    sample = seconds_of(ServingSample).get(at=at)
    assert (sample.model_name, sample.version, sample.arm) == ("resnet50", 1, "stable")
    assert (sample.requests, sample.timeouts, sample.pending) == (12, 2, 3)
    assert sum(sample.latency.values()) == 10
    first, second = seconds_of(RuntimeSample)
    assert first.span_ms == 0
    assert second.span_ms > 0
    assert second.cpu_percent is not None
    assert second.gpu_note == "no NVIDIA driver on this machine"


def test_idle_versions_get_one_row_a_minute(runtime: CountingRuntime, tick: Tick) -> None:
    runtime.load("resnet50", 1)
    for _ in range(61):
        tick()
    assert seconds_of(ServingSample).count() == 1
    assert seconds_of(RuntimeSample).count() == 61


def test_runtime_that_is_down_leaves_a_gap_and_loses_no_count(
    runtime: CountingRuntime, tick: Tick
) -> None:
    runtime.serve("resnet50", 1)
    tick()
    runtime.down = True
    runtime.serve("resnet50", 1, requests=5)
    tick()
    tick()
    runtime.down = False
    at = tick()
    assert seconds_of(RuntimeSample).count() == 2
    assert seconds_of(ServingSample).get(at=at).requests == 5


def test_slow_runtime_delays_no_other(row: Runtime, runtime: CountingRuntime, tick: Tick) -> None:
    slow_row = Runtime.objects.create(
        name="slow", http_address="127.0.0.1:2", grpc_address="slow:1"
    )
    with CountingRuntime(delay=5).at("slow:1"):
        tick()
        started = datetime.now(UTC)
        runtime.serve("resnet50", 1, requests=3)
        tick()
        assert (datetime.now(UTC) - started).total_seconds() < 0.5
    assert seconds_of(RuntimeSample).filter(runtime=row).count() == 2
    assert not RuntimeSample.objects.filter(runtime=slow_row).exists()


def test_restart_load_and_unload_are_marked(runtime: CountingRuntime, tick: Tick) -> None:
    runtime.load("resnet50", 1)
    tick()
    runtime.load("resnet50", 2)
    tick()
    runtime.unload("resnet50", 1)
    tick()
    runtime.restart("second")
    tick()
    assert list(EventMark.objects.order_by("id").values_list("kind", "text")) == [
        ("load", "resnet50 v2 loaded on edge-1"),
        ("unload", "resnet50 v1 unloaded from edge-1"),
        ("restart", "runtime edge-1 restarted"),
    ]


def test_stands_by_while_another_leads_and_writes_nothing(
    runtime: CountingRuntime, sampler: Sampler
) -> None:
    assert lease_take(holder="other")
    assert not sampler.tick(at=whole_second(datetime.now(UTC)))
    assert runtime.reads == 0
    assert not RuntimeSample.objects.exists()


def test_takes_over_when_the_lease_is_over(runtime: CountingRuntime, sampler: Sampler) -> None:
    assert lease_take(holder="other")
    SamplerLease.objects.update(until=datetime.now(UTC) - timedelta(milliseconds=1))
    assert sampler.tick(at=whole_second(datetime.now(UTC)))
    assert seconds_of(RuntimeSample).count() == 1


def test_leader_that_lost_the_lease_writes_nothing_more(
    runtime: CountingRuntime, sampler: Sampler
) -> None:
    at = whole_second(datetime.now(UTC))
    sampler.tick(at=at)
    SamplerLease.objects.update(holder="other", until=at + timedelta(hours=1))
    assert not sampler.tick(at=at + timedelta(seconds=1))
    assert seconds_of(RuntimeSample).count() == 1


@pytest.mark.parametrize("second_runtime_gone", [False, True])
def test_rows_wait_in_memory_while_the_database_refuses_them(
    runtime: CountingRuntime, sampler: Sampler, tick: Tick, second_runtime_gone: bool
) -> None:
    gone = Runtime.objects.create(name="gone", http_address="h:1", grpc_address="gone:1")

    def refuse(execute, sql, params, many, context):
        if sql.startswith("INSERT"):
            raise DatabaseError("database is locked")
        return execute(sql, params, many, context)

    with CountingRuntime().at("gone:1"):
        runtime.serve("resnet50", 1)
        tick()
        runtime.serve("resnet50", 1, requests=5)
        with connection.execute_wrapper(refuse):
            tick()
        assert not ServingSample.objects.exists()
        if second_runtime_gone:
            gone.delete()
        runtime.serve("resnet50", 1, requests=2)
        tick()
    counts = seconds_of(ServingSample).values_list("requests", flat=True)
    assert list(counts) == [5, 2]


def test_closing_frees_the_lease_at_once(runtime: CountingRuntime, sampler: Sampler) -> None:
    sampler.tick(at=whole_second(datetime.now(UTC)))
    sampler.close()
    assert lease_take(holder="other")


@pytest.mark.django_db(transaction=True)
def test_ticks_once_a_second_until_told_to_stop(runtime: CountingRuntime) -> None:
    stop = threading.Event()
    threading.Timer(2.6, stop.set).start()
    Sampler(holder="running").run(stop)
    moments = list(seconds_of(RuntimeSample).values_list("at", flat=True))
    assert len(moments) in (2, 3)
    assert all(moment.microsecond == 0 for moment in moments)
    assert moments[1] - moments[0] == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("microsecond", "seconds"), [(0, 1.0), (300_000, 0.7), (940_000, 0.06), (999_500, 1.0005)]
)
def test_waits_for_the_next_full_second_even_when_woken_early(
    microsecond: int, seconds: float
) -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, microsecond, tzinfo=UTC)
    assert seconds_to_next(moment) == pytest.approx(seconds)
