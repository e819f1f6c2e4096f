"""What outlives a load and what does not."""

from inference_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    Unavailable,
)
from inference_runtime.telemetry.gpu import GpuReading
from inference_runtime.telemetry.host import HostMonitor
from inference_runtime.telemetry.registry import UNLOADED_LIMIT
from inference_runtime.telemetry.stats import Gauges
from inference_runtime.telemetry.switchyard_statistics import statistics_body
from tests.inference_runtime.telemetry.world import Served, request_of


def body(served, state="READY"):
    return statistics_body(
        registry=served.registry,
        process=HostMonitor().process(),
        gpus=GpuReading((), "no driver"),
        state_of=lambda model, version: state,
    )


def test_a_reload_starts_the_version_at_zero_and_goes_on_with_its_arms():
    served = Served()
    served.execute(request_of("stable"))
    old, served.stats = served.stats, served.load()
    served.registry.retire(old)
    assert served.registry.published() == [served.stats]
    assert served.stats.device().successes == 0
    assert served.stats.arms["stable"].successes == 1
    served.execute(request_of("stable"))
    assert served.stats.arms["stable"].successes == 2


def test_requests_that_end_on_the_old_load_are_counted_for_the_arm():
    served = Served()
    old = served.stats
    served.load()
    served.execute(request_of("stable"))  # on the old one, which drains
    served.registry.retire(old)
    (arm,) = body(served)["models"][0]["arms"]
    assert arm["successes"] == 1


def test_a_load_that_failed_leaves_the_serving_one_visible():
    served = Served()
    failed = served.registry.prepare(model="m", version=1, config=served.config)
    served.registry.retire(failed)
    assert served.registry.find("m", 1) is served.stats


def test_versions_are_listed_by_name_and_number():
    served = Served()
    served.load(10)
    served.load(2)
    assert [stats.version for stats in served.registry.published()] == [1, 2, 10]


def test_the_extensions_body_has_every_promised_field():
    served = Served()
    served.stats.gauges = lambda: Gauges(pending=1, inflight=3, instances=2, busy=1)
    served.execute(request_of("canary", rows=2, generation=7))
    answer = body(served)
    assert set(answer["process"]) == {
        "started_at", "epoch", "pid", "cpu_seconds", "memory_bytes", "at_ns",
    }  # fmt: skip
    assert answer["gpus"] == []
    assert answer["gpu_note"] == "no driver"
    (model,) = answer["models"]
    assert (model["model"], model["version"], model["state"]) == ("m", 1, "READY")
    assert (model["pending"], model["inflight"], model["instances"]) == (1, 3, 2)
    (arm,) = model["arms"]
    assert set(arm) == {
        "arm", "generation", "requests", "successes", "failures", "client_faults", "rejections",
        "timeouts", "cancellations", "inferences", "executions", "queue_ns", "compute_ns", "latency",
    }  # fmt: skip
    assert (arm["arm"], arm["generation"], arm["inferences"]) == ("canary", 7, 2)
    assert list(arm["latency"].values()) == [1]
    assert all(isinstance(bucket, str) for bucket in arm["latency"])


def test_every_end_of_a_request_has_its_own_counter():
    served = Served()
    served.fail(Internal(""))
    served.fail(DeadlineExceeded("Request timeout expired"))
    served.fail(Cancelled(""))
    for fault in (Unavailable("full"), InvalidArgument("bad"), InvalidArgument("bad")):
        served.stats.refused(request_of(), fault)
    (arm,) = body(served)["models"][0]["arms"]
    assert (arm["failures"], arm["timeouts"], arm["cancellations"]) == (1, 1, 1)
    assert (arm["rejections"], arm["client_faults"]) == (1, 2)
    assert arm["requests"] == 6


def test_an_unloaded_version_stays_listed_with_what_it_counted_last():
    served = Served()
    served.execute(request_of("stable"))
    served.registry.retire(served.stats)
    (model,) = body(served, state="UNAVAILABLE")["models"]
    assert (model["state"], model["instances"], model["inflight"]) == ("UNAVAILABLE", 0, 0)
    assert model["arms"][0]["successes"] == 1


def versions_in(served):
    return [entry["version"] for entry in body(served)["models"]]


def serve_once(served, version):
    """Loads a version, sends it one request and unloads it."""
    served.stats = served.load(version)
    served.execute(request_of("stable"))
    served.registry.retire(served.stats)


def test_a_load_that_failed_leaves_nothing_behind():
    served = Served()
    for version in (2, 3):
        served.registry.prepare(model="m", version=version, config=served.config)
    assert versions_in(served) == [1]


def test_what_ends_on_the_old_load_is_counted_although_the_new_one_is_gone():
    served = Served()
    new = served.load()
    served.registry.retire(new)
    served.execute(request_of("stable"))  # on the old one, which drains
    served.registry.retire(served.stats)
    (arm,) = body(served)["models"][0]["arms"]
    assert arm["successes"] == 1


def test_of_versions_unloaded_without_end_the_last_are_kept():
    served = Served()
    for version in range(2, UNLOADED_LIMIT + 12):
        serve_once(served, version)
    assert versions_in(served) == [1, *range(12, UNLOADED_LIMIT + 12)]
    serve_once(served, 12)  # the oldest of them goes on where it was, and is the youngest now
    serve_once(served, UNLOADED_LIMIT + 12)
    assert versions_in(served) == [1, 12, *range(14, UNLOADED_LIMIT + 13)]
    (entry,) = [entry for entry in body(served)["models"] if entry["version"] == 12]
    assert entry["arms"][0]["successes"] == 2


def test_loads_of_one_version_at_the_same_time_count_into_one_arm():
    served = Served()
    first, second = (
        served.registry.prepare(model="m", version=2, config=served.config) for _ in range(2)
    )
    for stats in (first, second):
        served.registry.publish(stats)
        served.stats = stats
        served.execute(request_of("stable"))
    served.registry.retire(first)  # replaced, and drained only now
    assert second.arms["stable"].successes == 2


def test_another_process_is_another_epoch():
    assert Served().registry.epoch != Served().registry.epoch
