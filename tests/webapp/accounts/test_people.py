"""Accounts: who may manage them, and the rule of the last admin."""

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from tests.world import PASSWORD, World, assert_problem
from webapp.accounts.models import User
from webapp.audit.models import AuditEvent

pytestmark = pytest.mark.django_db


def change(client, username: str, body, tag: str = "*"):
    return client.patch(f"/api/v1/people/{username}", body, HTTP_IF_MATCH=tag)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_manage_people(world: World, role: str):
    client = world.api_client(role)
    for answer in (client.get("/api/v1/people"), client.post("/api/v1/people", {"username": "x"})):
        problem = assert_problem(answer, 403, "ROLE_REQUIRED")
        assert problem["role_required"] == "admin"
        assert "An admin can grant it" in problem["detail"]
    page = world.client(role).get("/people/")
    assert page.status_code == 403
    assert "An admin can grant it" in page.content.decode()


def test_an_admin_creates_somebody_and_sees_the_password_once(world: World):
    answer = world.api_client("admin").post(
        "/api/v1/people", {"username": "kim", "role": "operator"}
    )
    assert answer.status_code == 201
    kim = User.objects.get(username="kim")
    assert kim.check_password(answer.json()["password"])
    event = AuditEvent.objects.get(action="person.create", target="people/kim")
    assert event.actor == world.ada
    assert event.after == {"role": "operator", "is_active": True}


def test_a_name_is_taken_once(world: World):
    answer = world.api_client("admin").post("/api/v1/people", {"username": "vic"})
    assert_problem(answer, 409, "USERNAME_TAKEN")


def test_a_role_change_is_audited_with_before_and_after(world: World):
    answer = change(world.api_client("admin"), "vic", {"role": "operator"})
    assert answer.json()["role"] == "operator"
    event = AuditEvent.objects.get(action="person.change")
    assert event.before["role"] == "viewer"
    assert event.after["role"] == "operator"


def test_a_change_needs_the_current_etag(world: World):
    client = world.api_client("admin")
    tag = client.get("/api/v1/people/vic")["ETag"]
    assert change(client, "vic", {"role": "operator"}, tag).status_code == 200
    assert_problem(change(client, "vic", {"role": "viewer"}, tag), 412, "ETAG_MISMATCH")


@pytest.mark.parametrize("body", [{"role": "operator"}, {"is_active": False}])
def test_the_last_admin_stays_admin(world: World, body):
    client = world.api_client("admin")
    assert_problem(change(client, "ada", body), 409, "LAST_ADMIN")
    change(client, "olga", {"role": "admin"})
    assert change(client, "ada", body).status_code == 200


def test_unknown_roles_and_fields_are_named(world: World):
    client = world.api_client("admin")
    assert_problem(change(client, "vic", {"role": "king"}), 400, "UNKNOWN_ROLE")
    problem = assert_problem(change(client, "vic", {"email": "x"}), 400, "VALIDATION_FAILED")
    assert "email" in problem["detail"]


def test_the_page_changes_roles_and_resets_passwords(world: World):
    client = world.client("admin")
    assert client.post("/people/vic:change", {"role": "operator"}).status_code == 302
    world.vic.refresh_from_db()
    assert world.vic.role == "operator"
    page = client.post("/people/vic:reset-password")
    assert 'id="new-password"' in page.content.decode()
    world.vic.refresh_from_db()
    assert not world.vic.check_password(PASSWORD)


def test_ones_own_password_needs_the_current_one(world: World):
    client = world.client("viewer")
    wrong = client.post("/account/password/", {"current": "no", "new": "another good one"})
    assert wrong.status_code == 422
    assert "not your current password" in wrong.content.decode()
    weak = client.post("/account/password/", {"current": PASSWORD, "new": "password"})
    assert "too common" in weak.content.decode()
    right = client.post("/account/password/", {"current": PASSWORD, "new": "another good one"})
    assert right.status_code == 302
    assert client.get("/account/").status_code == 200, "this session goes on"


def bootstrap(capsys) -> dict[str, Any]:
    call_command("bootstrap_admin", "--json")
    return json.loads(capsys.readouterr().out)


def test_the_first_admin_gets_a_password_once(db, capsys):
    first = bootstrap(capsys)
    assert first["created"] is True
    assert User.objects.get(username=first["username"]).check_password(first["password"])
    assert bootstrap(capsys) == {"created": False, "username": "admin", "password": None}


@override_settings(ADMIN_PASSWORD="admin")
def test_a_password_from_the_environment_is_not_printed(db, capsys):
    assert bootstrap(capsys) == {"created": True, "username": "admin", "password": None}
    assert User.objects.get().check_password("admin")
