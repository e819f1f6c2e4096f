"""kill -9 of each part while a rollout and a benchmark run: inference never fails, all things end."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stack.demo.api import ApiProblem
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import deploy, lookup_model, publish, steps
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

ENDED_RUNS = {"SUCCEEDED", "UNSTABLE", "FAILED", "CANCELLED"}
ENDED_ROLLOUTS = {"SUCCEEDED", "ROLLED_BACK", "ABORTED", "FAILED"}


def test_killing_worker_sampler_web_and_redis_fails_no_request_and_loses_no_work(
    stack: Stack, tmp_path: Path
) -> None:
    api = stack.api()
    stable = publish(api, "sturdy", lookup_model(tmp_path, rows=20, scale=1, name="v1"))
    deploy(api, "sturdy", stable)
    canary = publish(api, "sturdy", lookup_model(tmp_path, rows=20, scale=100, name="v2"))
    deploy(api, "sturdy", canary)
    with Traffic(stack.grpc, "sturdy") as traffic:
        rollout = api.call(
            "POST",
            "/models/sturdy/rollouts",
            {
                "version": canary,
                "steps": steps(0.2, 0.5, 1.0, hold=15, requests=100),
                "bake_seconds": 2,
            },
        )
        benchmark = api.call(
            "POST",
            "/benchmarks",
            {"model": "sturdy", "version": stable, "protocol": "grpc", "concurrency": [1, 2, 4],
             "window_seconds": 1},
        )  # fmt: skip
        for part in ("worker", "control-worker", "bench-worker", "sampler", "web", "redis", "beat"):
            eventually(partial(_running, stack, part), within=60, what=f"{part} runs")
            stack.kill(part)
            eventually(stack.healthy, within=60, what="the web process answers")
        found = eventually(lambda: _ended(api, f"/rollouts/{rollout['id']}", ENDED_ROLLOUTS),
                           within=240, what="the rollout ends")  # fmt: skip
        run = eventually(lambda: _ended(api, f"/benchmarks/{benchmark['benchmark']}", ENDED_RUNS),
                         within=240, what="the benchmark ends")  # fmt: skip
    assert traffic.failed == []
    assert found["state"] == "SUCCEEDED", found
    assert run["state"] in {"SUCCEEDED", "UNSTABLE"}, run
    assert [point["concurrency"] for point in run["points"]] == [1, 2, 4]
    operation = api.call("GET", f"/operations/{benchmark['id']}")
    assert operation["state"] == "SUCCEEDED"


def _running(stack: Stack, part: str) -> bool:
    try:
        return stack.pid_of(part) > 0
    except AssertionError:
        return False


def _ended(api, path: str, states: set[str]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = api.call("GET", path)
    except ApiProblem as problem:
        if problem.status < 500:
            raise
        return None
    return found if found["state"] in states else None
