"""Loads, unloads, reloads, steps and promotions under 200 requests a second lose nothing."""

import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import deploy, finish, lookup_model, publish, steps
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_every_request_is_answered_by_a_version_that_was_configured(
    stack: Stack, tmp_path: Path
) -> None:
    model = "busy"
    api = stack.api()
    first = publish(api, model, lookup_model(tmp_path, rows=20, scale=1, name="v1"))
    deploy(api, model, first)
    with Traffic(stack.grpc, model) as traffic:
        second = publish(api, model, lookup_model(tmp_path, rows=20, scale=100, name="v2"))
        deploy(api, model, second)  # load beside
        loaded = time.monotonic()
        _reload_with_two_instances(api, model)
        _reload_with_two_instances(api, model, instances=1)
        before_rollout = time.monotonic()
        rollout = api.call(
            "POST",
            f"/models/{model}/rollouts",
            {
                "version": second,
                "steps": steps(0.5, 1.0, hold=300, requests=100_000),
                "bake_seconds": 1,
            },
        )
        eventually(lambda: traffic.versions()[second] > 100, within=30, what="the canary serves")
        api.call("POST", f"/rollouts/{rollout['id']}:promote", {})
        eventually(
            lambda: api.call("GET", f"/rollouts/{rollout['id']}")["state"] == "SUCCEEDED",
            within=60,
            what="promoted",
        )
        promoted = time.monotonic()
        finish(api, api.call("POST", f"/models/{model}/versions/{first}:undeploy", {}))  # unload
        eventually(
            lambda: traffic.versions(since=promoted)[second] > 300, within=30, what="more traffic"
        )
    assert traffic.failed == []
    assert len(traffic.answers) > 1000
    assert set(traffic.versions(until=before_rollout)) == {first}
    assert set(traffic.versions(since=promoted)) == {second}
    assert loaded < before_rollout
    for answer in traffic.answers:
        scale = {first: 1, second: 100}[answer.version]
        assert answer.value % scale == 0


def _reload_with_two_instances(api, model: str, instances: int = 2) -> None:
    path = f"/models/{model}/serving-config"
    api.change(path, {"instance_count": instances})
