"""If-Match on every call that writes, as ADR 0011 has it: needed, taken or refused, never ignored."""

from typing import Any

import pytest

from tests.webapp.api.described import Description, Operation
from tests.webapp.api.paths import filled, snapshot
from tests.webapp.rollouts.yard import Yard
from tests.world import assert_problem
from webapp.accounts.models import ApiToken
from webapp.benchmarks.models import BenchmarkRun
from webapp.catalog.models import Alias, ModelVersion
from webapp.serving.services import reconcile_request

MALFORMED = ["abc", '"abc', 'W/abc"', '"a" "b"', '*, "a"', ""]


@pytest.fixture
def names(station: Yard) -> dict[str, str]:
    """One of everything that has an ETag."""
    version = ModelVersion.objects.get(model=station.model, number=2)
    Alias.objects.create(model=station.model, name="champion", version=version)
    client = station.world.api_client()
    rollout = client.post("/api/v1/models/resnet50/rollouts", {"version": 2}).json()
    run = client.post("/api/v1/benchmarks", {"model": "resnet50", "version": 1}).json()
    token = ApiToken.objects.get(user=station.world.ada)
    job = reconcile_request(runtime=station.runtime, actor=station.olga)
    return {
        "rollout_id": rollout["id"],
        "run_id": run["benchmark"],
        "token_id": str(token.pk),
        "job_id": job.id,
    }


def _send(station: Yard, operation: Operation, path: str, tag: str | None) -> Any:
    body = operation.what.get("requestBody", {}).get("content", {}).get("application/json", {})
    headers = {} if tag is None else {"If-Match": tag}
    call = getattr(station.world.api_client("admin"), operation.method.lower())
    return call(path, body.get("example"), headers=headers)


def _taking(description: Description) -> list[Operation]:
    return [each for each in description.operations if "If-Match" in each.parameters("header")]


@pytest.mark.parametrize("tag", MALFORMED)
def test_what_is_no_tag_is_refused_everywhere(
    station: Yard, description: Description, tag: str
) -> None:
    before = snapshot()
    for operation in description.operations:
        if operation.method != "GET":
            answer = _send(station, operation, filled(operation.path), tag)
            assert_problem(answer, 400, "BAD_IF_MATCH")
    assert snapshot() == before


def test_a_stale_tag_is_refused_wherever_one_is_taken(
    station: Yard, description: Description, names: dict[str, str]
) -> None:
    before = snapshot()
    for operation in _taking(description):
        answer = _send(station, operation, filled(operation.path, **names), '"old"')
        assert answer.status_code == 412, (operation.name, answer.content)
        problem = assert_problem(answer, 412, "ETAG_MISMATCH")
        assert problem["current_etag"].startswith('"'), operation.name
    assert snapshot() == before


def test_to_replace_or_delete_one_is_needed_and_an_action_goes_without(
    station: Yard, description: Description, names: dict[str, str]
) -> None:
    for operation in _taking(description):
        if operation.method == "POST":
            continue
        answer = _send(station, operation, filled(operation.path, **names), None)
        problem = assert_problem(answer, 428, "IF_MATCH_REQUIRED")
        assert problem["current_etag"].startswith('"'), operation.name
    abort = f"/api/v1/rollouts/{names['rollout_id']}:abort"
    assert station.world.api_client().post(abort, {}).status_code == 200


def test_where_there_is_nothing_to_match_it_is_refused(
    station: Yard, description: Description
) -> None:
    taking = {each.name for each in _taking(description)}
    before, refused = snapshot(), set()
    for operation in description.operations:
        if operation.method != "GET" and operation.name not in taking:
            answer = _send(station, operation, filled(operation.path), '"abc"')
            assert_problem(answer, 400, "IF_MATCH_NOT_TAKEN")
            refused.add(operation.name)
    assert {"createModel", "uploadVersion", "setStage", "startRollout", "putPart"} <= refused
    assert snapshot() == before


@pytest.mark.parametrize("form", ["{tag}", "W/{tag}", '"other", {tag}', "*"])
def test_every_spelling_of_the_right_tag_does(
    station: Yard, names: dict[str, str], form: str
) -> None:
    client, path = station.world.api_client(), f"/api/v1/benchmarks/{names['run_id']}"
    sent = {"If-Match": form.format(tag=client.get(path)["ETag"])}
    assert client.post(f"{path}:cancel", {}, headers=sent).status_code == 200
    assert BenchmarkRun.objects.get().state == "CANCELLED"


def test_an_alias_that_is_gone_is_not_made_again_by_who_meant_to_move_it(station: Yard) -> None:
    client, path = station.world.api_client(), "/api/v1/models/resnet50/aliases/champion"
    moved = client.put(path, {"version": 1}, headers={"If-Match": '"read-before"'})
    assert_problem(moved, 412, "ETAG_MISMATCH")
    assert not Alias.objects.exists()
    assert client.put(path, {"version": 1}).status_code == 201


def test_what_is_measured_is_news_and_not_a_304(station: Yard, names: dict[str, str]) -> None:
    client = station.world.api_client()
    for path in ("models/resnet50", f"rollouts/{names['rollout_id']}"):
        tag = client.get(f"/api/v1/{path}")["ETag"]
        again = client.get(f"/api/v1/{path}", headers={"If-None-Match": tag})
        assert again.status_code == 200, "aliases and evidence are not in the tag"
    version = "/api/v1/models/resnet50/versions/1"
    tag = client.get(version)["ETag"]
    assert client.get(version, headers={"If-None-Match": tag}).status_code == 304
