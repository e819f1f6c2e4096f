"""Lists: cursors that neither repeat nor lose a row, filters and orders by known names only."""

from typing import Any

import pytest

from tests.world import World, assert_problem
from webapp.accounts.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.webapp.core.sample_routes")]


def walk(client, path: str, size: int) -> list[Any]:
    seen, token = [], ""
    while True:
        joint = "&" if "?" in path else "?"
        body = client.get(f"{path}{joint}page_size={size}&page_token={token}").json()
        seen += body["items"]
        token = body["next_page_token"]
        if not token:
            return seen


@pytest.fixture
def many(world: World) -> World:
    for number in range(12):
        User.objects.create_user(username=f"user{number:02}", role="viewer")
    return world


@pytest.mark.parametrize("size", [1, 4, 15, 100])
@pytest.mark.parametrize("order", ["", "username", "-username", "role,-username", "-role", "since"])
def test_every_row_comes_once(many: World, size: int, order: str):
    client = many.api_client()
    path = "/api/v1/sample-people" + (f"?order_by={order}" if order else "")
    seen = walk(client, path, size)
    assert len(seen) == len(set(seen)) == 15
    assert seen == walk(client, path, 100)


def test_a_row_added_meanwhile_shifts_nothing(many: World):
    client = many.api_client()
    first = client.get("/api/v1/sample-people?page_size=3").json()
    User.objects.create_user(username="aaa")
    rest = client.get(
        f"/api/v1/sample-people?page_size=100&page_token={first['next_page_token']}"
    ).json()
    assert not set(first["items"]) & set(rest["items"])
    assert len(first["items"]) + len(rest["items"]) == 15


def test_filters_by_named_fields(many: World):
    client = many.api_client()
    get = lambda query: client.get(f"/api/v1/sample-people?{query}")  # noqa: E731
    assert get("role=admin").json()["items"] == ["ada"]
    assert get("filter=role!=viewer").json()["items"] == ["ada", "olga"]
    assert get('filter=role="viewer" AND username>=user10').json()["items"] == [
        "user10", "user11", "vic",
    ]  # fmt: skip
    problem = assert_problem(get("filter=password=x"), 400, "UNKNOWN_FIELD")
    assert "password" in problem["detail"]
    assert_problem(get("filter=role~x"), 400, "BAD_FILTER")
    assert_problem(get("filter=since>=yesterday"), 400, "BAD_FILTER")
    assert_problem(get("order_by=password"), 400, "UNKNOWN_FIELD")


@pytest.mark.parametrize("token", ["x", "AAAA", "W10", "bnVsbA", "%00"])
def test_made_up_tokens_are_refused(world: World, token: str):
    for path in ("sample-people", "numbers"):
        answer = world.api_client().get(f"/api/v1/{path}?page_token={token}")
        assert_problem(answer, 400, "BAD_PAGE_TOKEN")


@pytest.mark.parametrize("size", ["0", "-1", "many", "1.5"])
def test_nonsense_sizes_are_refused(world: World, size: str):
    answer = world.api_client().get(f"/api/v1/numbers?page_size={size}")
    assert_problem(answer, 400, "BAD_PAGE_SIZE")


def test_lists_in_memory_page_alike(world: World):
    client = world.api_client()
    assert walk(client, "/api/v1/numbers", 3) == list(range(7))
    assert len(client.get("/api/v1/numbers?page_size=99999").json()["items"]) == 7
