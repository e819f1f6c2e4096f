"""The REST API of rollouts, as scripts rely on it."""

import pytest

from tests.webapp.rollouts.yard import QUICK, Yard
from tests.world import assert_problem
from webapp.audit.models import AuditEvent

MODEL = "/api/v1/models/resnet50/rollouts"
SLOW = [{"weight": 0.25, "hold_seconds": 500, "min_requests": 10_000}]


def started(yard: Yard, role: str = "operator", **body):
    return yard.world.api_client(role).post(MODEL, {"version": 2, "steps": SLOW, **body})


def test_starting_answers_201_with_the_rollout_and_where_it_lives(yard: Yard, canary) -> None:
    response = started(yard, steps=QUICK)
    assert response.status_code == 201, response.content
    body = response.json()
    assert response["Location"] == f"{MODEL}/{body['id']}"
    assert body["model"] == "resnet50"
    assert body["stable"] == {"version": 1, "variant": None}
    assert body["canary"] == {"version": 2, "variant": None}
    assert body["state"] == "INITIALIZING"
    assert body["pause_reason"] is None
    assert body["step"] == 0
    assert body["steps"][0] == {
        "weight": 0.1, "hold_seconds": 5.0, "min_requests": 50, "pause": False,
    }  # fmt: skip
    assert body["verdict"] == "WAITING"
    assert [row["guardrail"] for row in body["evidence"]] == [
        "errors", "rejections", "client_faults", "latency",
    ]  # fmt: skip
    assert body["actions"] == ["abort"]


def test_without_steps_it_is_the_default_ladder(yard: Yard, canary) -> None:
    body = yard.world.api_client().post(MODEL, {"version": 2}).json()
    assert [step["weight"] for step in body["steps"]] == [0.01, 0.05, 0.1, 0.25, 0.5, 1.0]


def test_min_requests_beside_the_steps_is_for_all_that_do_not_say_their_own(
    yard: Yard, canary
) -> None:
    steps = [0.1, {"weight": 0.5, "min_requests": 7}, 1.0]
    body = started(yard, steps=steps, min_requests=20, bake_seconds=3).json()
    assert [step["min_requests"] for step in body["steps"]] == [20, 7, 0]
    assert body["steps"][-1]["hold_seconds"] == 3


def test_validate_only_shows_the_plan_and_starts_nothing(yard: Yard) -> None:
    yard.version(2)
    yard.pass_seconds(10, ticking=False)
    response = yard.world.api_client().post(f"{MODEL}?validate_only=true", {"version": 2})
    assert response.status_code == 200
    plan = response.json()
    assert plan["load_on"] == ["edge-1"]
    assert plan["rate"] == pytest.approx(100, rel=0.2)
    assert plan["steps"][0]["seconds"] == pytest.approx(300, rel=0.3)
    assert yard.world.api_client().get("/api/v1/rollouts").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/version"),
        ({"version": 0}, "/version"),
        ({"version": True}, "/version"),
        ({"version": "2"}, "/version"),
        ({"version": 2, "variant": "fp16"}, "/variant"),
        ({"version": 2, "step": []}, "/step"),
        ({"version": 2, "steps": [{"weight": 20}]}, "/steps/0/weight"),
        ({"version": 2, "guardrails": {"speed": 1}}, "/guardrails/speed"),
        ({"version": 2, "supersede": "yes"}, "/supersede"),
        ({"version": 2, "bake_seconds": -1}, "/bake_seconds"),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused_at_its_place(
    yard: Yard, canary, body, pointer
) -> None:
    problem = assert_problem(yard.world.api_client().post(MODEL, body), 400, "INVALID_ROLLOUT")
    assert pointer in [error["pointer"] for error in problem["errors"]]


def test_unknown_things_are_not_found(yard: Yard, canary) -> None:
    client = yard.world.api_client()
    assert_problem(
        client.post("/api/v1/models/nope/rollouts", {"version": 2}), 404, "MODEL_NOT_FOUND"
    )
    assert_problem(client.post(MODEL, {"version": 9}), 404, "VERSION_NOT_FOUND")
    assert_problem(client.get("/api/v1/rollouts/ro_nope"), 404, "ROLLOUT_NOT_FOUND")
    assert_problem(client.post("/api/v1/rollouts/ro_nope:abort", {}), 404, "ROLLOUT_NOT_FOUND")


def test_a_second_rollout_is_a_conflict_that_names_the_first(yard: Yard, canary) -> None:
    first = started(yard).json()
    problem = assert_problem(started(yard), 409, "ROLLOUT_ACTIVE")
    assert problem["rollout"] == first["id"]


@pytest.mark.parametrize("below_model", [True, False])
def test_every_verb_works_below_the_model_and_alone(yard: Yard, canary, below_model) -> None:
    rollout = started(yard, steps=[0.1, {"weight": 0.5, "hold_seconds": 500}]).json()
    yard.pass_seconds(2)
    client = yard.world.api_client()
    base = f"{MODEL if below_model else '/api/v1/rollouts'}/{rollout['id']}"
    assert client.get(base).json()["state"] == "PROGRESSING"
    assert client.post(f"{base}:pause", {"reason": "lunch"}).json()["reason"] == "lunch"
    assert client.post(f"{base}:resume", {}).json()["state"] == "PROGRESSING"
    assert client.post(f"{base}:advance", {}).json()["step"] == 1
    assert client.post(f"{base}:promote").json()["state"] == "PROMOTING"
    assert client.post(f"{base}:abort", {}).json()["state"] == "ABORTED"
    history = client.get(f"{base}/history").json()["items"]
    assert [row["to"] for row in history][:2] == ["ABORTED", "ROLLING_BACK"]
    assert history[1]["by"] == "olga"
    analysis = client.get(f"{base}/analysis").json()["items"]
    assert [row["weight"] for row in analysis] == [0.1, 0.5, 1.0]


def test_a_verb_the_state_does_not_allow_is_a_conflict(yard: Yard, canary) -> None:
    rollout = started(yard).json()
    client = yard.world.api_client()
    assert_problem(
        client.post(f"/api/v1/rollouts/{rollout['id']}:resume", {}), 409, "ROLLOUT_STATE"
    )


def test_if_match_protects_against_what_one_has_not_seen(yard: Yard, canary) -> None:
    rollout = started(yard).json()
    yard.pass_seconds(2)
    client = yard.world.api_client()
    path = f"/api/v1/rollouts/{rollout['id']}"
    seen = client.get(path)["ETag"]
    yard.pass_seconds(5)
    assert client.get(path)["ETag"] == seen, "measurements are no change"
    assert client.post(f"{path}:pause", {}, headers={"If-Match": seen}).status_code == 200
    late = client.post(f"{path}:resume", {}, headers={"If-Match": seen})
    assert_problem(late, 412, "ETAG_MISMATCH")


def test_an_idempotency_key_starts_one_rollout(yard: Yard, canary) -> None:
    client = yard.world.api_client()
    answers = [
        client.post(MODEL, {"version": 2, "steps": SLOW}, headers={"Idempotency-Key": "k1"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]


def test_lists_are_filtered_and_paged(yard: Yard, canary) -> None:
    client = yard.world.api_client()
    for _ in range(3):
        rollout = started(yard).json()
        client.post(f"/api/v1/rollouts/{rollout['id']}:abort", {})
    page = client.get("/api/v1/rollouts?page_size=2&state=ABORTED").json()
    assert len(page["items"]) == 2
    more = client.get(f"/api/v1/rollouts?page_size=2&page_token={page['next_page_token']}").json()
    assert len(more["items"]) == 1
    assert client.get(f"{MODEL}?state=FAILED").json()["items"] == []
    assert_problem(client.get("/api/v1/rollouts?filter=age=3"), 400, "UNKNOWN_FIELD")


def test_viewers_look_and_do_not_touch_and_strangers_do_neither(yard: Yard, canary) -> None:
    assert_problem(started(yard, "viewer"), 403, "ROLE_REQUIRED")
    rollout = started(yard).json()
    path = f"/api/v1/rollouts/{rollout['id']}"
    viewer, stranger = yard.world.api_client("viewer"), yard.world.api_client(None)
    assert viewer.get(path).status_code == 200
    for verb in ("pause", "resume", "advance", "promote", "abort"):
        assert_problem(viewer.post(f"{path}:{verb}", {}), 403, "ROLE_REQUIRED")
        assert stranger.post(f"{path}:{verb}", {}).status_code == 401
    assert stranger.get(path).status_code == 401
    assert stranger.get("/api/v1/rollouts").status_code == 401


def test_evidence_and_comparison_tell_what_was_measured(yard: Yard, canary) -> None:
    rollout = started(yard).json()
    yard.pass_seconds(20)
    body = yard.world.api_client().get(f"/api/v1/rollouts/{rollout['id']}").json()
    assert body["shares"]["configured"] == body["shares"]["applied"] == 0.25
    assert body["shares"]["observed"] == pytest.approx(0.25, abs=0.1)
    assert body["sample"]["seen"] > 200
    assert body["sample"]["seconds_left"] > 0
    errors = body["evidence"][0]
    assert errors["canary"] == {"bad": 0, "requests": body["sample"]["seen"], "rate": 0.0}
    assert 0 <= errors["progress"] < 1
    for arm in ("stable", "canary"):
        assert body["comparison"]["step"][arm]["latency_ms"]["p99"] > 1


@pytest.mark.parametrize("move", ["pause", "advance", "promote", "abort"])
def test_a_dry_run_of_a_move_says_where_it_leads_and_moves_nothing(
    yard: Yard, canary, move: str
) -> None:
    address = f"{MODEL}/{started(yard).json()['id']}"
    yard.pass_seconds(3)
    operator = yard.world.api_client("operator")
    before, transitions = operator.get(address), operator.get(f"{address}/history").json()
    assert before.json()["state"] == "PROGRESSING"
    rows = AuditEvent.objects.count()
    answer = operator.post(f"{address}:{move}?validate_only=true", {})
    assert answer.status_code == 200, answer.content
    would_be = answer.json()
    assert (would_be["state"], would_be["step"]) != ("PROGRESSING", 0)
    after = operator.get(address)
    assert after["ETag"] == before["ETag"]
    assert operator.get(f"{address}/history").json() == transitions
    assert AuditEvent.objects.count() == rows


def test_a_dry_run_of_a_move_that_is_not_open_says_why(yard: Yard, canary) -> None:
    address = f"{MODEL}/{started(yard).json()['id']}"
    answer = yard.world.api_client("operator").post(f"{address}:resume?validate_only=true", {})
    assert_problem(answer, 409, "ROLLOUT_STATE")
