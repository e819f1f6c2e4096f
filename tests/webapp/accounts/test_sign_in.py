"""Signing in, and what happens to those who guess."""

from typing import Any

import pytest
from django.test import Client

from tests.fakes.clock import Clock
from tests.world import PASSWORD, World
from webapp.accounts.services import password_reset, person_change
from webapp.audit.models import AuditEvent

pytestmark = pytest.mark.django_db


def sign_in(client: Client, password: str, username: str = "olga", **extra: Any):
    return client.post("/login/", {"username": username, "password": password}, **extra)


def test_a_stranger_is_sent_to_the_login_page_and_back(world: World):
    client = Client()
    sent = client.get("/account/?tab=tokens")
    assert sent.status_code == 302
    assert sent["Location"] == "/login/?next=/account/%3Ftab%3Dtokens"
    back = client.post(
        "/login/", {"username": "olga", "password": PASSWORD, "next": "/account/?tab=tokens"}
    )
    assert back["Location"] == "/account/?tab=tokens"
    assert client.get("/account/").status_code == 200


def test_next_never_leads_to_another_site(world: World):
    answer = Client().post(
        "/login/", {"username": "olga", "password": PASSWORD, "next": "https://evil.example/"}
    )
    assert answer["Location"] == "/"


def test_ten_wrong_passwords_lock_the_name_for_this_address(world: World, clock: Clock):
    client = Client()
    for _ in range(9):
        assert sign_in(client, "wrong").status_code == 400
    locked = sign_in(client, "wrong")
    assert locked.status_code == 429
    assert "Try again in 5 min" in locked.content.decode()
    assert sign_in(client, PASSWORD).status_code == 429, "even the right one is not tried"
    assert sign_in(client, PASSWORD, REMOTE_ADDR="10.0.0.9").status_code == 302
    assert AuditEvent.objects.get(action="login.lock").target == "people/olga"
    clock.advance(301)
    assert sign_in(client, PASSWORD).status_code == 302


def test_a_success_forgets_the_failures_before_it(world: World):
    client = Client()
    for _ in range(9):
        sign_in(client, "wrong")
    assert sign_in(client, PASSWORD).status_code == 302
    client.post("/logout/")
    for _ in range(9):
        assert sign_in(client, "wrong").status_code == 400


def test_an_unknown_name_is_told_the_same_as_a_wrong_password(world: World):
    wrong = sign_in(Client(), "wrong").content.decode()
    unknown = sign_in(Client(), "wrong", username="nobody").content.decode()
    assert "do not match" in wrong
    assert "do not match" in unknown


def test_a_deactivated_person_is_signed_out_at_once(world: World):
    client = world.client("operator")
    assert client.get("/account/").status_code == 200
    person_change(person=world.olga, actor=world.ada, is_active=False)
    assert client.get("/account/").status_code == 302
    assert sign_in(Client(), PASSWORD).status_code == 400


def test_a_password_reset_ends_the_sessions(world: World):
    client = world.client("operator")
    password = password_reset(person=world.olga, actor=world.ada)
    assert client.get("/account/").status_code == 302
    assert sign_in(Client(), password).status_code == 302


def test_signing_out_needs_a_post(world: World):
    client = world.client("operator")
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/account/").status_code == 302


def test_a_post_without_csrf_token_is_refused(world: World):
    client = Client(enforce_csrf_checks=True)
    assert sign_in(client, PASSWORD).status_code == 403
