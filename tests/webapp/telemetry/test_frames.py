import json
from datetime import UTC, datetime
from typing import Any

from inference_runtime.spec.latency import bucket_of
from webapp.telemetry.deltas import RuntimeDelta, ServingDelta
from webapp.telemetry.frames import FrameBuilder, RuntimeView
from webapp.telemetry.readings import COUNTERS, ArmKey, RuntimeReading, VersionGauges

AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MARK = {"id": 1, "at": AT.isoformat(), "kind": "load", "text": "loaded"}


def serving(
    model: str = "resnet50",
    version: int = 1,
    arm: str = "stable",
    *,
    requests: int = 0,
    latency_ms: float = 5.0,
    pending: int | None = 0,
    inflight: int | None = 0,
    **counts: int,
) -> ServingDelta:
    zeros = dict.fromkeys(COUNTERS, 0)
    latency = {bucket_of(int(latency_ms * 1e6)): requests} if requests else {}
    return ServingDelta(
        ArmKey(model, version, arm),
        0,
        zeros | {"requests": requests} | counts,
        latency,
        pending,
        inflight,
    )


def seen(name: str, *servings: ServingDelta, **reading: Any) -> RuntimeView:
    versions = {(s.key.model, s.key.version): VersionGauges(0, 0) for s in servings}
    full = RuntimeReading(epoch="a", at_ns=0, arms={}, versions=versions, **reading)
    return RuntimeView(name, RuntimeDelta(1000, servings, 12.5, full))


def silent(name: str) -> RuntimeView:
    return RuntimeView(name, None, "Connection refused", AT)


def told(builder: FrameBuilder, *views: RuntimeView, marks: Any = ()) -> dict[str, dict[str, Any]]:
    frames = builder.frames(at=AT, runtimes=views, marks=marks)
    return {topic: frame["telemetry"] for topic, frame in frames.items()}


def test_every_topic_gets_its_own_values() -> None:
    frames = told(
        FrameBuilder(),
        seen("a", serving(requests=10, failures=1), serving("bert", 2, requests=4)),
        seen("b", serving(requests=5)),
    )
    assert set(frames) == {"fleet", "runtime:a", "runtime:b", "model:resnet50", "model:bert"}
    assert frames["fleet"]["values"]["requests_per_second"] == 19
    assert frames["fleet"]["values"]["requests_per_second|resnet50|1"] == 15
    assert frames["runtime:b"]["values"]["requests_per_second"] == 5
    assert frames["model:resnet50"]["values"]["error_share@1"] == 0.06667
    assert frames["model:resnet50"]["scopes"]["a"]["values"]["requests_per_second"] == 10
    assert frames["runtime:a"]["values"]["cpu_percent|a"] == 12.5


def test_shares_are_those_of_the_requests_that_the_table_placed() -> None:
    view = seen(
        "a",
        serving(requests=6),
        serving(version=2, arm="canary", requests=2),
        serving(version=2, arm="", requests=100),
    )
    values = told(FrameBuilder(), view)["model:resnet50"]["values"]
    assert values["observed_share@2"] == 0.25
    assert values["requests_per_second@2"] == 2


def test_idle_model_says_nothing_but_is_known() -> None:
    frame = told(FrameBuilder(), seen("a", serving()))["model:resnet50"]
    assert frame["known"]
    assert frame["values"] == {"cpu_percent|a": 12.5}
    assert frame["golden"]["requests_per_second"] == 0
    assert frame["golden"]["latency_p99_ms"] is None


def test_model_at_rest_is_told_once_and_again_when_it_moves_or_is_lost() -> None:
    builder = FrameBuilder()
    told(builder, seen("a", serving(requests=3)))
    topics = [set(told(builder, seen("a", serving()))) for _ in range(12)]
    assert ["model:resnet50" in topic for topic in topics] == [True] * 10 + [False] * 2
    assert "fleet" in topics[-1]
    assert "model:resnet50" in told(builder, seen("a", serving(requests=1)))
    for _ in range(12):
        told(builder, seen("a", serving()))
    assert not told(builder, silent("a"))["model:resnet50"]["known"]


def test_silent_runtime_makes_its_models_unknown_not_idle() -> None:
    builder = FrameBuilder()
    told(builder, seen("a", serving(requests=3)), seen("b", serving("bert", requests=1)))
    frames = told(builder, silent("a"), seen("b", serving("bert", requests=1)))
    assert not frames["model:resnet50"]["known"]
    assert frames["model:bert"]["known"]
    assert frames["fleet"]["known"]
    assert frames["fleet"]["runtimes"]["a"]["reason"] == "Connection refused"
    assert frames["model:resnet50"]["golden"]["requests_per_second"] is None


def test_unloaded_model_is_at_rest() -> None:
    builder = FrameBuilder()
    told(builder, seen("a", serving(requests=3)))
    frame = told(builder, seen("a"))["model:resnet50"]
    assert frame["known"]
    assert frame["values"] == {}


def test_gauge_that_is_not_told_is_null_not_left_out() -> None:
    values = told(FrameBuilder(), seen("triton", serving(requests=1, inflight=None)))[
        "model:resnet50"
    ]["values"]
    assert values["inflight"] is None
    assert "pending" not in values


def test_golden_numbers_cover_the_last_ten_ticks() -> None:
    builder, frames = FrameBuilder(), {}
    for second in range(12):
        frames = told(builder, seen("a", serving(requests=10 if second < 7 else 0)))
    assert frames["fleet"]["golden"]["requests_per_second"] == 5
    assert frames["fleet"]["golden"]["latency_p50_ms"] is not None


def test_marks_reach_whom_they_concern() -> None:
    marks = [
        MARK | {"model": "resnet50", "runtime": "a"},
        MARK | {"model": "", "runtime": "b"},
    ]
    frames = told(FrameBuilder(), seen("a", serving(), serving("bert")), seen("b"), marks=marks)
    assert len(frames["fleet"]["marks"]) == 2
    assert [m["runtime"] for m in frames["runtime:b"]["marks"]] == ["b"]
    assert [m["model"] for m in frames["model:bert"]["marks"]] == [""]


def test_frames_stay_under_16_kib_and_say_when_values_are_missing() -> None:
    long = "m" * 96
    servings = [serving(f"{long}{n}", 1, requests=n, pending=n, inflight=n) for n in range(500)]
    servings += [serving("wide", n, requests=n) for n in range(500)]
    gpus = tuple(
        {"uuid": f"GPU-{n}" + "0" * 36, "utilization": 0.5, "memory_used_bytes": 10**10,
         "power_watts": 300.0, "temperature_celsius": 60}
        for n in range(8)
    )  # fmt: skip
    views = [seen(f"runtime-{n}", *(servings if n == 0 else ()), gpus=gpus) for n in range(10)]
    frames = FrameBuilder().frames(at=AT, runtimes=views, marks=[])
    assert max(len(json.dumps(frame)) for frame in frames.values()) < 16 * 1024
    assert frames["fleet"]["telemetry"]["partial"]
    assert f"requests_per_second|{long}499|1" in frames["fleet"]["telemetry"]["values"]
    assert not frames["model:" + f"{long}3"]["telemetry"]["partial"]
