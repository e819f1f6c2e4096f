from typing import Any

import pytest

from tests.fakes.clock import Clock
from tests.fakes.counting_runtime import CountingRuntime
from tests.webapp.telemetry.test_sampler import Tick
from tests.world import World, assert_problem
from webapp.catalog.models import InferenceModel
from webapp.serving.models import Runtime, TrafficTable
from webapp.telemetry.boards import Board, board_data
from webapp.telemetry.selectors import observed_shares
from webapp.telemetry.services import mark_event

pytestmark = pytest.mark.usefixtures("runtime")


def figure(data: Any, name: str) -> Any:
    return next(one for one in data["figures"] if one["name"] == name)


def last(data: Any, name: str) -> dict[str, float | None]:
    """Key → newest value."""
    return {trace["meta"]["key"]: trace["y"][-1] for trace in figure(data, name)["data"]}


def test_live_board_shows_what_was_served(runtime: CountingRuntime, tick: Tick) -> None:
    runtime.load("resnet50", 3)
    tick()
    runtime.serve("resnet50", 3, requests=8, latency_ms=5, failures=2)
    runtime.pending["resnet50", 3] = 4
    tick()
    data = board_data(board=Board())
    assert data["topic"] == "fleet"
    assert data["live"]
    assert data["x"]["step"] == 1000
    rate = last(data, "requests_per_second")["requests_per_second|resnet50|3"]
    assert rate is not None
    assert rate > 0
    assert last(data, "errors")["failure_share"] == 0.25
    assert last(data, "pending")["pending|resnet50|3"] == 4
    latency = last(data, "latency")["latency_p50_ms"]
    assert latency == pytest.approx(5, rel=0.1)
    assert last(data, "memory_bytes")["memory_bytes|edge-1"] == 200_000_000
    lengths = {len(t["y"]) for one in data["figures"] for t in one["data"]}
    assert lengths == {data["x"]["count"]}


def test_time_before_the_first_reading_is_unknown(tick: Tick) -> None:
    tick()
    data = board_data(board=Board(range_name="5m"))
    start, _ = data["unknown"][0]
    assert start == data["x"]["first"] - 1000


def test_machine_without_gpu_says_why(tick: Tick) -> None:
    tick()
    data = board_data(board=Board())
    assert figure(data, "gpu")["empty"] == "No GPU here: no NVIDIA driver on this machine"


def test_every_gpu_has_its_lines(runtime: CountingRuntime, tick: Tick) -> None:
    runtime.gpus = [
        {"uuid": f"GPU-{n}", "index": n, "utilization": 0.5, "memory_used_bytes": 10,
         "memory_total_bytes": 20, "power_watts": 100.0, "temperature_celsius": 50}
        for n in range(2)
    ]  # fmt: skip
    tick()
    data = board_data(board=Board())
    names = [trace["name"] for trace in figure(data, "gpu_power_watts")["data"]]
    assert names == ["gpu:0 on edge-1", "gpu:1 on edge-1"]
    assert not [one for one in data["figures"] if one["name"] == "gpu"]


def test_model_board_colours_versions_by_their_role(runtime: CountingRuntime, tick: Tick) -> None:
    model = InferenceModel.objects.create(name="resnet50")
    arms = [
        {"version": 3, "variant": None, "role": "stable", "weight": 0.9},
        {"version": 4, "variant": None, "role": "canary", "weight": 0.1},
    ]
    TrafficTable.objects.create(model=model, salt="s", arms=arms)
    tick()
    runtime.serve("resnet50", 3, requests=9)
    runtime.serve("resnet50", 4, arm="canary", requests=1)
    tick()
    data = board_data(board=Board(kind="model", model="resnet50"))
    lines = figure(data, "requests_per_second")["data"]
    assert [line["name"] for line in lines] == ["v3 stable", "v4 canary"]
    assert data["topic"] == "model:resnet50"


def test_rollout_board_compares_the_arms(runtime: CountingRuntime, tick: Tick) -> None:
    start = tick()
    tick()
    runtime.serve("resnet50", 3, requests=30, latency_ms=4)
    runtime.serve("resnet50", 4, arm="canary", requests=10, latency_ms=9)
    tick()
    board = Board(kind="rollout", model="resnet50", since=start, stable=3, canary=4)
    data = board_data(board=board)
    assert last(data, "pair_share") == {"observed_share@4": 0.25}
    latency = last(data, "pair_latency")
    assert latency["latency_p50_ms@3"] == pytest.approx(4, rel=0.1)
    assert latency["latency_p50_ms@4"] == pytest.approx(9, rel=0.1)
    names = {trace["name"] for trace in figure(data, "pair_requests")["data"]}
    assert names == {"stable v3", "canary v4"}
    assert data["span_ms"] is None


def test_longer_ranges_are_refreshed_instead_of_appended(
    runtime: CountingRuntime, tick: Tick
) -> None:
    runtime.load("resnet50", 1)
    tick()
    for _ in range(59):
        runtime.serve("resnet50", 1, requests=5)
        tick()
    data = board_data(board=Board(range_name="1h"))
    assert (data["live"], data["refresh_seconds"], data["x"]["step"]) == (False, 10, 10_000)
    rates = figure(data, "requests_per_second")["data"][0]["y"]
    assert max(rate for rate in rates if rate is not None) > 0


def test_marks_of_the_window_are_shown(tick: Tick) -> None:
    tick()
    mark_event(kind="promote", text="v4 takes all", model_name="resnet50")
    mark_event(kind="load", text="another", model_name="bert")
    marks = board_data(board=Board(model="resnet50"))["marks"]
    assert [mark["text"] for mark in marks] == ["v4 takes all"]


# -- over HTTP --------------------------------------------------------------------------------
def test_live_page_offers_a_call_to_make_when_nothing_was_served(world: World) -> None:
    page = world.client("viewer").get("/live/")
    assert page.status_code == 200
    assert b"Nothing is loaded" in page.content
    assert b'href="/upload/"' in page.content.partition(b"Nothing is loaded")[2]
    assert b"/live/figures/?board=live" in page.content


def test_live_page_shows_a_silent_runtime(world: World) -> None:
    Runtime.objects.update(health_reason="Connection refused")
    page = world.client("viewer").get("/live/").content.decode()
    assert "edge-1 does not answer" in page
    assert "Connection refused" in page


def test_golden_numbers_are_in_the_page(world: World, runtime: CountingRuntime, tick: Tick) -> None:
    tick()
    runtime.serve("resnet50", 3, requests=10, timeouts=1)
    tick()
    page = world.client("viewer").get("/live/").content.decode()
    assert 'data-golden="error_share"' in page
    assert ">10%<" in page


@pytest.mark.parametrize(("timeouts", "failing"), [(0, False), (1, False), (12, True)])
def test_the_strip_says_when_many_requests_fail(
    world: World, runtime: CountingRuntime, tick: Tick, timeouts: int, failing: bool
) -> None:
    tick()
    runtime.serve("resnet50", 3, requests=40, timeouts=timeouts)
    tick()
    strip = world.client("viewer").get("/strip/").content.decode()
    assert ("30% of requests fail" in strip) == failing
    assert ("Failing" in strip) == failing
    overview = world.client("viewer").get("/").content.decode()
    assert ("12 timed out" in overview) == failing


@pytest.mark.parametrize("query", ["model=nothing", "runtime=nothing"])
def test_unknown_filter_is_not_found(world: World, query: str) -> None:
    assert world.client("viewer").get(f"/live/?{query}").status_code == 404


@pytest.mark.parametrize("query", ["range=2y", "since=yesterday", "board=nothing"])
def test_nonsense_in_the_url_is_refused(world: World, query: str) -> None:
    assert world.client("viewer").get(f"/live/figures/?{query}").status_code == 400


def test_zoom_is_a_window_of_its_own(world: World, tick: Tick) -> None:
    at = tick()
    since = round(at.timestamp() * 1000) - 60_000
    answer = world.client("viewer").get(f"/live/figures/?since={since}&until={since + 50_000}")
    data = answer.json()
    assert not data["live"]
    assert data["x"]["count"] == pytest.approx(50, abs=2)


def test_strangers_see_no_chart(world: World) -> None:
    for path in ("/live/", "/live/figures/"):
        assert world.client(None).get(path).status_code == 302


# -- the API ----------------------------------------------------------------------------------
def test_traffic_has_configured_applied_and_observed_shares(
    world: World, runtime: CountingRuntime, tick: Tick
) -> None:
    model = InferenceModel.objects.create(name="resnet50")
    arms = [
        {"version": 3, "variant": None, "role": "stable", "weight": 0.9},
        {"version": 4, "variant": None, "role": "canary", "weight": 0.1},
    ]
    TrafficTable.objects.create(model=model, generation=7, salt="s", arms=arms)
    tick()
    api = world.api_client("viewer")
    body = api.get("/api/v1/models/resnet50/traffic").json()
    assert [arm["observed"] for arm in body["arms"]] == [None, None]

    runtime.serve("resnet50", 3, requests=6)
    runtime.serve("resnet50", 4, arm="canary", requests=2)
    runtime.serve("resnet50", 4, arm="", requests=50)
    tick()
    body = api.get("/api/v1/models/resnet50/traffic").json()
    assert (body["model"], body["generation"]) == ("resnet50", 7)
    assert [(a["version"], a["role"], a["configured"], a["observed"]) for a in body["arms"]] == [
        (3, "stable", 0.9, 0.75),
        (4, "canary", 0.1, 0.25),
    ]


def test_observed_shares_forget_what_was_before_a_change(
    runtime: CountingRuntime, tick: Tick, clock: Clock
) -> None:
    model = InferenceModel.objects.create(name="resnet50")
    tick()
    runtime.serve("resnet50", 3, requests=100)
    tick()
    TrafficTable.objects.create(model=model, salt="s", arms=[])
    assert observed_shares(model="resnet50") == {3: 1.0}
    tick()
    runtime.serve("resnet50", 3, requests=5)
    runtime.serve("resnet50", 4, arm="canary", requests=5)
    tick()
    assert observed_shares(model="resnet50") == {3: 0.5, 4: 0.5}
    clock.advance(60)
    assert observed_shares(model="resnet50") == {}


def test_series_say_their_unit_and_formula(
    world: World, runtime: CountingRuntime, tick: Tick
) -> None:
    runtime.load("resnet50", 3)
    tick()
    tick()
    runtime.serve("resnet50", 3, requests=5)
    tick()
    url = "/api/v1/telemetry/series?metric=requests_per_second&model=resnet50&version=3&range=5m"
    body = world.api_client("viewer").get(url).json()
    assert (body["unit"], body["step_seconds"]) == ("per_second", 1)
    assert "÷" in body["formula"]
    (item,) = body["items"]
    assert (item["model"], item["version"], item["reason"]) == ("resnet50", 3, None)
    assert {value for _, value in item["points"]} >= {0, None}


@pytest.mark.parametrize(
    ("query", "reason"),
    [("metric=happiness", "BAD_METRIC"), ("range=2y", "BAD_RANGE"), ("version=x", "BAD_PARAMETER")],
)
def test_unknown_series_are_refused(world: World, query: str, reason: str) -> None:
    answer = world.api_client("viewer").get(f"/api/v1/telemetry/series?{query}")
    assert_problem(answer, 400, reason)


def test_events_are_listed_newest_first(world: World) -> None:
    mark_event(kind="load", text="one", model_name="resnet50")
    mark_event(kind="promote", text="two", model_name="resnet50")
    mark_event(kind="load", text="three", model_name="bert")
    api = world.api_client("viewer")
    body = api.get("/api/v1/telemetry/events?model=resnet50").json()
    assert [item["text"] for item in body["items"]] == ["two", "one"]
    assert set(body["items"][0]) == {"id", "at", "kind", "text", "model", "runtime"}
