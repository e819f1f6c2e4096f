"""Ensembles whose first step makes responses faster than the next one takes them, through a real gRPC client."""

import os
import signal
import time

import pytest

from tests.conformance.backpressure_models import Bench, calls, write_models
from tests.conformance.python_world import eventually
from tests.conformance.repeat_model import inflight
from tests.conformance.runtime_process import runtime

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
MANY = 20_000
# What may wait before a producer is held back, two portions that are on their way, and one more.
MOST_AHEAD = 1024 + 2 * 256 + 1


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_models(path)
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(path, log, "--load-model=*") as server:
        yield Bench(server, path)


@pytest.mark.parametrize(("maker", "count"), [("sync", MANY), ("thread", 5000), ("async", 5000)])
def test_a_producer_waits_for_a_step_that_is_slower_and_nothing_is_lost(bench, maker, count):
    with calls(bench.server, f"{maker}_flow", [count]) as [call]:
        with bench.stopped():
            made = bench.wait_until_held(maker)
            assert made <= MOST_AHEAD
            assert inflight(bench.server, "taker") <= MOST_AHEAD
        assert call.all() == list(range(count))
    assert inflight(bench.server, f"{maker}_flow") == 0


def test_two_requests_at_once_both_end_complete(bench):
    with calls(bench.server, "thread_flow", [5000, 6000]) as opened:
        assert [call.all() for call in opened] == [list(range(5000)), list(range(6000))]


def test_a_coroutine_that_waits_leaves_the_loop_to_the_others(bench):
    with bench.stopped(), calls(bench.server, "async_flow", [MANY]) as [held]:
        made = bench.wait_until_held("async")
        with calls(bench.server, "async_flow", [100]) as [second]:
            # The same process makes all of the second one's while the first one waits.
            eventually(lambda: bench.made("async") == 99 != made)
            held.cancel()
            second.cancel()
    eventually(lambda: inflight(bench.server, "async") == 0)


def test_a_coroutine_that_awaits_nothing_waits_where_it_sends(bench):
    with calls(bench.server, "stubborn_flow", [5000]) as [call]:
        with bench.stopped():
            assert bench.wait_until_held("stubborn") <= MOST_AHEAD + 256
        assert call.all() == list(range(5000))


def test_large_responses_wait_sooner(bench):
    with bench.stopped(), calls(bench.server, "large_flow", [600]) as [call]:
        # A mebibyte each: 64 of them, and two portions of sixteen.
        eventually(lambda: bench.made("large") >= 60)
        assert inflight(bench.server, "taker") <= 64 + 2 * 17 + 1
        call.cancel()
    eventually(lambda: inflight(bench.server, "large") == 0)


@pytest.mark.parametrize("maker", ["sync", "thread", "async"])
def test_cancelling_lets_a_producer_go_that_waits(bench, maker):
    with bench.stopped(), calls(bench.server, f"{maker}_flow", [MANY]) as [call]:
        bench.wait_until_held(maker)
        call.cancel()
        eventually(lambda: bench.made(maker) == MANY - 1)
        eventually(lambda: inflight(bench.server, maker) == 0)
    eventually(lambda: inflight(bench.server, f"{maker}_flow") == 0)
    with calls(bench.server, f"{maker}_flow", [10]) as [call]:
        assert call.all() == list(range(10))


def test_a_deadline_lets_a_producer_go_that_waits(bench):
    with bench.stopped(), calls(bench.server, "sync_flow", [MANY], stream_timeout=3) as [call]:
        bench.wait_until_held("sync")
        eventually(lambda: bench.made("sync") == MANY - 1)
        assert call.next()[1] is not None
    eventually(lambda: inflight(bench.server, "sync_flow") == 0)


def test_a_producer_that_is_killed_while_it_waits_ends_its_request(bench):
    with calls(bench.server, "sync_flow", [MANY]) as [call]:
        with bench.stopped():
            bench.wait_until_held("sync")
            os.kill(bench.process("sync"), signal.SIGKILL)
            eventually(lambda: inflight(bench.server, "sync") == 0)
        while (error := call.next()[1]) is None:
            pass
    assert "Stub process 'sync_0' is not healthy" in error.message()
    eventually(lambda: inflight(bench.server, "sync_flow") == 0)
    eventually(lambda: bench.server.call("GET", "/v2/models/sync/ready")[0] == 200)
    with calls(bench.server, "sync_flow", [10]) as [call]:
        assert call.all() == list(range(10))


def test_a_step_that_fails_lets_its_producer_go_and_is_told_once(bench):
    with calls(bench.server, "disliked_flow", [MANY]) as [call]:
        with bench.stopped():
            bench.wait_until_held("disliked")
        while (error := call.next()[1]) is None:
            pass
        assert error.message().startswith("in ensemble 'disliked_flow', Failed to process")
        eventually(lambda: bench.made("disliked") == MANY - 1)
    assert call.idle
    eventually(lambda: inflight(bench.server, "disliked_flow") == 0)


def test_two_producers_in_a_row_wait_for_the_last_step(bench):
    with calls(bench.server, "row_flow", [200]) as [call]:
        with bench.stopped():
            eventually(lambda: inflight(bench.server, "taker") > 1024)
            most = 1024 + 16 * 2 * 64 + 1
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                assert inflight(bench.server, "taker") <= most
        assert sorted(call.all()) == list(range(200 * 50))


def test_a_step_that_needs_the_instance_of_its_producer_gets_it_in_the_end(bench):
    with calls(bench.server, "circle_flow", [2500]) as [call]:
        assert call.all() == list(range(2500))


def test_a_step_is_unloaded_while_its_producer_waits_and_nothing_is_lost(bench):
    with calls(bench.server, "thread_flow", [5000]) as [call]:
        with bench.stopped():
            bench.wait_until_held("thread")
        for model in ("taker", "thread"):
            assert bench.server.call("POST", f"/v2/repository/models/{model}/unload", {})[0] == 200
        assert call.all() == list(range(5000))
    for model in ("taker", "thread"):
        assert bench.server.call("POST", f"/v2/repository/models/{model}/load", {})[0] == 200
    eventually(lambda: bench.server.call("GET", "/v2/models/thread_flow/ready")[0] == 200)


def test_a_server_ends_while_a_producer_waits(tmp_path):
    path = tmp_path / "repository"
    path.mkdir()
    write_models(path)
    options = ("--load-model=sync_flow", "--load-model=thread_flow", "--exit-timeout-secs=2")
    with runtime(path, tmp_path / "log", *options) as server:
        bench = Bench(server, path)
        with (
            bench.stopped(),
            calls(server, "sync_flow", [MANY]),
            calls(server, "thread_flow", [MANY]),
        ):
            bench.wait_until_held("sync")
            bench.wait_until_held("thread")
            server.terminate()
