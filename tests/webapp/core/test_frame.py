"""The rail, the verdict strip, static files, health and the API's documentation."""

from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.utils import timezone

from tests.world import World
from webapp.core import verdict
from webapp.core.navigation import sections
from webapp.core.verdict import StripItem, Verdict, strip_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch):
    found: list[Any] = []
    monkeypatch.setattr(verdict, "_providers", found)
    return found


def test_six_groups_each_with_a_page():
    found = sections(path="/jobs/", is_admin=True)
    assert [section.short for section in found] == [
        "Overview", "Models", "Rollouts", "Measure", "Live", "Admin",
    ]  # fmt: skip
    assert [section.short for section in found if section.current] == ["Admin"]


def test_the_page_one_is_on_is_marked_also_below_it():
    admin = sections(path="/jobs/op_1/", is_admin=True)[-1]
    assert [link.label for link in admin.links if link.current] == ["Jobs"]


def test_only_admins_see_people():
    labels = [
        link.label for section in sections(path="/", is_admin=False) for link in section.links
    ]
    assert "People" not in labels


def test_no_two_pages_share_a_key():
    keys = [
        link.key
        for section in sections(path="/", is_admin=True)
        for link in section.links
        if link.key
    ]
    assert len(keys) == len(set(keys))


def test_the_gravest_word_wins_and_all_items_are_shown(world: World, providers):
    now = timezone.now()
    providers += [
        lambda user: Verdict("All well", "good", "2 of 2 runtimes ready", data_at=now),
        lambda user: Verdict("Degraded", "bad", "edge-1 does not answer"),
        lambda user: Verdict("Moving", "canary", items=(StripItem("resnet50 5%", "/rollouts/1/"),)),
        lambda user: None,
    ]
    strip = strip_of(world.vic)
    assert (strip.word, strip.tone, strip.reason) == ("Degraded", "bad", "edge-1 does not answer")
    assert [item.text for item in strip.items] == ["resnet50 5%"]
    assert strip.data_at == now


def test_a_broken_provider_does_not_take_the_page(world: World, providers):
    providers.append(lambda user: 1 / 0)
    assert strip_of(world.vic).word == "Unknown"
    assert world.client("viewer").get("/account/").status_code == 200


def test_the_strip_is_served_by_itself_to_those_signed_in(world: World, providers):
    providers.append(lambda user: Verdict("All well", "good", "fine"))
    assert "All well" in world.client("viewer").get("/strip/").content.decode()
    assert Client().get("/strip/").status_code == 401


def test_health_is_open_to_the_supervisor():
    assert Client().get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("name", ["vendor/plotly.min.js", "vendor/htmx.min.js", "css/base.css"])
def test_static_files_come_from_where_they_are_installed(name: str):
    assert finders.find(name)
    answer = Client().get(f"/static/{name}")
    assert answer.status_code == 200
    assert len(answer.content) > 1000
    tag = answer["ETag"]
    assert Client().get(f"/static/{name}", HTTP_IF_NONE_MATCH=tag).status_code == 304


def test_static_addresses_change_with_the_file(world: World):
    page = world.client("viewer").get("/account/").content.decode()
    assert "/static/css/tokens.css?v=" in page
    assert "cdn" not in page


def test_no_page_of_ours_has_inline_script_or_handlers(world: World):
    client = world.client("admin")
    for path in ("/account/", "/people/", "/jobs/", "/api/docs/", "/login/", "/nowhere/"):
        text = client.get(path).content.decode().lower()
        assert " onclick=" not in text, path
        assert "javascript:" not in text, path
        assert "<script>" not in text, path


def test_the_api_is_described_and_documented(world: World):
    client = world.client("viewer")
    schema = client.get("/api/schema/?format=json").json()
    for path in ("/api/v1/me", "/api/v1/operations/{job_id}:cancel", "/api/v1/tokens"):
        assert path in schema["paths"]
    operation = schema["paths"]["/api/v1/me"]["get"]
    assert {"bearer": []} in operation["security"]
    assert "Problem" in schema["components"]["schemas"]
    ids = [
        operation["operationId"]
        for operations in schema["paths"].values()
        for operation in operations.values()
    ]
    assert len(ids) == len(set(ids))
    page = client.get("/api/docs/").content.decode()
    assert "/api/v1/operations/{job_id}:wait" in page
    assert Client().get("/api/docs/").status_code == 302
