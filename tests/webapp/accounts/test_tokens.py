"""API tokens: shown once, kept hashed, end when they should."""

import pytest
from django.core.management import call_command

from tests.fakes.clock import Clock
from tests.world import World, assert_problem
from webapp.accounts.models import ApiToken
from webapp.accounts.services import person_change, token_issue
from webapp.audit.models import AuditEvent
from webapp.core.models import IdempotencyRecord

pytestmark = pytest.mark.django_db


def test_a_token_is_in_the_answer_once_and_hashed_in_the_table(world: World):
    client = world.api_client("viewer")
    issued = client.post("/api/v1/tokens", {"name": "nightly"})
    assert issued.status_code == 201
    token = issued.json()["token"]
    assert token.startswith("sy_")
    assert token not in str(list(ApiToken.objects.values()))
    listed = client.get("/api/v1/tokens").json()["items"]
    assert all("token" not in item for item in listed)
    assert token not in str(list(AuditEvent.objects.values()))


def test_an_idempotency_key_issues_one_token_and_does_not_keep_it(world: World):
    client = world.api_client("viewer")
    first = client.post("/api/v1/tokens", {"name": "a"}, HTTP_IDEMPOTENCY_KEY="k")
    second = client.post("/api/v1/tokens", {"name": "a"}, HTTP_IDEMPOTENCY_KEY="k")
    assert first.status_code == 201
    assert_problem(second, 409, "IDEMPOTENT_ANSWER_NOT_KEPT")
    assert ApiToken.objects.filter(name="a").count() == 1
    assert IdempotencyRecord.objects.get().answer is None


def test_a_token_stops_when_revoked(world: World):
    client = world.api_client("operator")
    number = client.get("/api/v1/tokens").json()["items"][0]["id"]
    assert client.post(f"/api/v1/tokens/{number}:revoke").status_code == 200
    assert_problem(client.get("/api/v1/me"), 401, "AUTHENTICATION_FAILED")
    event = AuditEvent.objects.get(action="token.revoke")
    assert event.before["revoked_at"] is None
    assert event.after["revoked_at"] is not None


def test_a_token_stops_when_it_expires(world: World, clock: Clock):
    client = world.api_client("operator")
    token = client.post("/api/v1/tokens", {"name": "short", "expires_in_days": 1}).json()["token"]
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.get("/api/v1/me").status_code == 200
    clock.advance(86_401)
    assert_problem(client.get("/api/v1/me"), 401, "AUTHENTICATION_FAILED")


def test_a_token_stops_when_its_owner_is_deactivated(world: World):
    client = world.api_client("operator")
    assert client.get("/api/v1/me").json()["role"] == "operator"
    person_change(person=world.olga, actor=world.ada, is_active=False)
    answer = client.get("/api/v1/me")
    assert_problem(answer, 401, "AUTHENTICATION_FAILED")
    assert answer["WWW-Authenticate"] == 'Bearer realm="switchyard"'


def test_a_delete_needs_if_match(world: World):
    client = world.api_client("operator")
    number = client.post("/api/v1/tokens", {"name": "x"}).json()["id"]
    assert_problem(client.delete(f"/api/v1/tokens/{number}"), 428, "IF_MATCH_REQUIRED")
    wrong = client.delete(f"/api/v1/tokens/{number}", HTTP_IF_MATCH='"old"')
    assert_problem(wrong, 412, "ETAG_MISMATCH")
    tag = client.get(f"/api/v1/tokens/{number}")["ETag"]
    assert client.delete(f"/api/v1/tokens/{number}", HTTP_IF_MATCH=tag).status_code == 204


def test_nobody_sees_the_tokens_of_others(world: World):
    theirs, _ = token_issue(user=world.ada, name="hers", actor=world.ada)
    answer = world.api_client("operator").get(f"/api/v1/tokens/{theirs.pk}")
    assert_problem(answer, 404, "TOKEN_NOT_FOUND")


def test_use_is_noted_at_most_once_a_minute(world: World, clock: Clock):
    client = world.api_client("viewer")
    client.get("/api/v1/me")
    first = ApiToken.objects.get(user=world.vic).last_used_at
    clock.advance(30)
    client.get("/api/v1/me")
    assert ApiToken.objects.get(user=world.vic).last_used_at == first
    clock.advance(60)
    client.get("/api/v1/me")
    assert ApiToken.objects.get(user=world.vic).last_used_at != first


def test_the_command_prints_the_token_as_its_last_line(world: World, capsys):
    call_command("token_issue", user="ada")
    token = capsys.readouterr().out.strip().splitlines()[-1]
    client = world.api_client(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.get("/api/v1/me").json()["username"] == "ada"


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "x", "expires_in_days": 0},
        {"name": "x", "expires_at": "soon"},
        {"name": "x", "expires_at": "2001-01-01T00:00:00Z"},
    ],
)
def test_nonsense_is_refused(world: World, body):
    assert world.api_client("viewer").post("/api/v1/tokens", body).status_code == 400


def test_the_page_shows_the_token_once(world: World):
    client = world.client("viewer")
    page = client.post("/account/tokens/", {"name": "laptop", "expires_in_days": "30"})
    assert b"sy_" in page.content
    again = client.get("/account/").content.decode()
    assert "laptop" in again
    assert 'id="issued-token"' not in again
