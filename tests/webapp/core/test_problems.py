"""Every refusal has one shape, says what to do, and can be found again by its id."""

from typing import Any

import pytest
from django.test import Client

from tests.webapp.core import sample_routes
from tests.world import PASSWORD, World, assert_problem

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.webapp.core.sample_routes")]


@pytest.fixture(autouse=True)
def _no_calls():
    sample_routes.calls.clear()


def test_no_credentials(world: World):
    answer = world.api_client(None).get("/api/v1/echo")
    assert_problem(answer, 401, "NOT_AUTHENTICATED")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_role_too_low(world: World):
    problem = assert_problem(
        world.api_client("viewer").post("/api/v1/echo", {}), 403, "ROLE_REQUIRED"
    )
    assert problem["role_required"] == "operator"
    assert sample_routes.calls == []


def test_an_unknown_path(world: World):
    assert_problem(world.api_client("viewer").get("/api/v1/nothing"), 404, "NOT_FOUND")


def test_a_method_that_is_not_there(world: World):
    answer = world.api_client("viewer").delete("/api/v1/echo")
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert set(answer["Allow"].split(", ")) == {"GET", "POST", "HEAD", "OPTIONS"}


@pytest.mark.parametrize("body", ["{", '{"a": }', "\xff", "[" * 100_000])
def test_malformed_json(world: World, body: str):
    answer = world.api_client().post("/api/v1/echo", body, content_type="application/json")
    assert_problem(answer, 400, "MALFORMED_BODY")


def test_json_that_is_not_an_object(world: World):
    answer = world.api_client().post("/api/v1/echo", [1], format="json")
    assert_problem(answer, 400, "MALFORMED_BODY")


def test_a_body_of_another_type(world: World):
    answer = world.api_client().post("/api/v1/echo", "a=b", content_type="text/csv")
    assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_too_large(world: World, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = world.api_client().post("/api/v1/echo", {"x": "y" * 2000})
    assert_problem(answer, 413, "BODY_TOO_LARGE")


def test_our_errors_carry_reason_help_and_extras(world: World):
    problem = assert_problem(
        world.api_client().post("/api/v1/echo", {"fail": "conflict"}), 409, "BUSY"
    )
    assert problem["help"] == "Wait."
    assert problem["holder"] == "x"
    assert problem["retryable"] is False


def test_field_errors_become_pointers(world: World):
    problem = assert_problem(world.api_client().get("/api/v1/faults/400"), 400, "VALIDATION_FAILED")
    assert {error["pointer"] for error in problem["errors"]} == {"/steps/0/weight", "/name"}


def test_what_is_unavailable_says_when_to_try_again(world: World):
    answer = world.api_client().get("/api/v1/faults/503")
    assert_problem(answer, 503, "RUNTIME_UNREACHABLE")
    assert int(answer["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("unreachable", 503, "RUNTIME_UNREACHABLE"),
        ("lacks", 409, "RUNTIME_LACKS_EXTENSION"),
        ("refused", 502, "RUNTIME_REFUSED"),
    ],
)
def test_a_runtimes_faults_have_a_meaning(world: World, kind: str, status: int, reason: str):
    assert_problem(world.api_client().get(f"/api/v1/faults/{kind}"), status, reason)


def test_the_unexpected_is_logged_under_the_id_and_tells_no_secret(world: World, caplog):
    answer = world.api_client().get("/api/v1/faults/500", HTTP_X_REQUEST_ID="mine-1")
    problem = assert_problem(answer, 500, "INTERNAL")
    assert problem["request_id"] == "mine-1"
    assert "secret" not in answer.content.decode()
    assert "mine-1" in caplog.text
    assert "secret detail" in caplog.text


def test_a_request_id_that_is_not_sane_is_replaced(world: World):
    answer = world.api_client().get("/api/v1/echo", HTTP_X_REQUEST_ID="a b\tc<script>")
    assert answer["X-Request-Id"].isalnum()


def test_a_session_needs_the_csrf_token_and_a_bearer_does_not(world: World):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.olga)
    refused = browser.post("/api/v1/echo", {}, content_type="application/json")
    assert_problem(refused, 403, "PERMISSION_DENIED")
    page = browser.get("/account/")
    token = page.cookies["csrftoken"].value
    headers: Any = {"HTTP_X_CSRFTOKEN": token}
    assert browser.post("/api/v1/echo", {}, "application/json", **headers).status_code == 202
    script = Client(enforce_csrf_checks=True)
    bearer: Any = {"HTTP_AUTHORIZATION": f"Bearer {world.token('operator')}"}
    assert script.post("/api/v1/echo", {}, "application/json", **bearer).status_code == 202


@pytest.mark.parametrize(("raw", "status"), [("true", 200), ("0", 200), ("maybe", 400)])
def test_validate_only_is_true_or_false(world: World, raw: str, status: int):
    assert world.api_client().get(f"/api/v1/echo?validate_only={raw}").status_code == status


def test_a_page_shows_our_error_with_its_fix_and_id(world: World):
    page = world.client("operator").get("/busy/")
    assert page.status_code == 409
    text = page.content.decode()
    assert "It is busy." in text
    assert "Wait a moment." in text
    assert page["X-Request-Id"] in text


def test_htmx_gets_the_error_as_a_part(world: World):
    page = world.client("operator").get("/busy/", HTTP_HX_REQUEST="true")
    assert page.status_code == 409
    assert "<html" not in page.content.decode()


def test_pages_that_break_or_are_missing_are_pages(world: World):
    client = world.client("viewer")
    client.raise_request_exception = False
    assert "There is nothing at /nowhere/" in client.get("/nowhere/").content.decode()
    broken = client.get("/broken/")
    assert broken.status_code == 500
    assert broken["X-Request-Id"] in broken.content.decode()


def test_no_inline_script_is_allowed(world: World):
    policy = Client().post("/login/", {"username": "olga", "password": PASSWORD})[
        "Content-Security-Policy"
    ]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";") if part.strip())
    assert directives["script-src"] == "'self'"
    assert directives["object-src"] == "'none'"
    assert directives["frame-ancestors"] == "'none'"
