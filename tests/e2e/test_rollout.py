"""A rollout with real processes and real traffic: judged, moved and taken back by itself."""

import time
from pathlib import Path
from typing import Any

import pytest

from stack.demo.api import Api
from tests.e2e.conftest import Stack, eventually
from tests.e2e.steps import deploy, lookup_model, publish, steps
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ENDED = {"SUCCEEDED", "ROLLED_BACK", "ABORTED", "FAILED"}


def any_of(count: int):
    return lambda source: source.randrange(count)


def two_versions(
    stack: Stack, folder: Path, model: str, *, canary_rows: int
) -> tuple[Api, int, int]:
    api = stack.api()
    stable = publish(api, model, lookup_model(folder, rows=20, scale=1, name="stable"))
    deploy(api, model, stable)
    canary = publish(api, model, lookup_model(folder, rows=canary_rows, scale=100, name="canary"))
    deploy(api, model, canary)
    return api, stable, canary


def ended(api: Api, rollout: dict[str, Any]) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        now = api.call("GET", f"/rollouts/{rollout['id']}")
        return now if now["state"] in ENDED else None

    return eventually(ask, within=180, what="the rollout ends by itself")


def test_a_canary_that_fails_one_request_in_twenty_is_rolled_back_by_itself(
    stack: Stack, tmp_path: Path
) -> None:
    api, stable, canary = two_versions(stack, tmp_path, "fails-some", canary_rows=19)
    with Traffic(stack.grpc, "fails-some", make=any_of(20)) as traffic:
        rollout = api.call(
            "POST",
            "/models/fails-some/rollouts",
            {"version": canary, "steps": steps(0.2, 0.5, 1.0, hold=60, requests=10_000)},
        )
        found = ended(api, rollout)
        assert found["state"] == "ROLLED_BACK", found
        assert found["verdict"] == "FAIL"
        assert found["reason"]
        back = time.monotonic()
        eventually(
            lambda: traffic.versions(since=back + 1)[stable] > 100,
            within=20,
            what="stable has the traffic again",
        )
    assert set(traffic.versions(since=back + 1)) == {stable}
    assert all(answer.value < 20 for answer in traffic.answers if answer.version == stable)
    # Only the canary failed requests, and only those it cannot answer.
    assert 0 < len(traffic.failed) < len(traffic.answers) * 0.05


def test_a_canary_equal_to_stable_is_promoted_by_itself(stack: Stack, tmp_path: Path) -> None:
    api, stable, canary = two_versions(stack, tmp_path, "as-good", canary_rows=20)
    with Traffic(stack.grpc, "as-good", make=any_of(20)) as traffic:
        rollout = api.call(
            "POST",
            "/models/as-good/rollouts",
            {
                "version": canary,
                "steps": steps(0.1, 0.5, 1.0, hold=3, requests=50),
                "bake_seconds": 3,
            },
        )
        found = ended(api, rollout)
        assert found["state"] == "SUCCEEDED", found
        assert found["verdict"] == "PASS"
        promoted = time.monotonic()
        eventually(
            lambda: traffic.versions(since=promoted)[canary] > 100,
            within=20,
            what="the canary is the new stable",
        )
    assert traffic.failed == []
    assert set(traffic.versions(since=promoted)) == {canary}
    assert {a.version for a in traffic.answers} == {stable, canary}
    for answer in traffic.answers:
        assert answer.value % 100 == 0 or answer.version == stable
    stages = api.call("GET", "/models/as-good")["stages"]
    assert stages["production"] == canary


def test_shares_reach_the_runtime_within_a_second_and_abort_gives_all_back(
    stack: Stack, tmp_path: Path
) -> None:
    api, stable, canary = two_versions(stack, tmp_path, "aborted", canary_rows=20)
    with Traffic(stack.grpc, "aborted", make=any_of(20)) as traffic:
        rollout = api.call(
            "POST",
            "/models/aborted/rollouts",
            {"version": canary, "steps": steps(0.5, 1.0, hold=300, requests=100_000)},
        )
        eventually(
            lambda: traffic.versions()[canary] > 50, within=30, what="the canary gets traffic"
        )
        table = api.call("GET", "/models/aborted/traffic")
        arms = {arm["role"]: arm for arm in table["arms"]}
        assert arms["canary"]["configured"] == arms["canary"]["applied"] == pytest.approx(0.5)
        api.call("POST", f"/rollouts/{rollout['id']}:abort", {})
        aborted = time.monotonic()
        time.sleep(
            3
        )  # the traffic itself is the clock: what was sent a second after must be stable
    late = traffic.versions(since=aborted + 1.0)
    assert set(late) == {stable}
    assert late[stable] > 200
    assert traffic.failed == []
    assert api.call("GET", f"/rollouts/{rollout['id']}")["state"] == "ABORTED"
