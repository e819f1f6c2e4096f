"""Idempotency-Key: the same call again gets the first answer, another one is refused."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.fakes.clock import Clock
from tests.webapp.core import sample_routes
from tests.world import World, assert_problem
from webapp.core.idempotency import idempotency_prune
from webapp.core.models import IdempotencyRecord

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.webapp.core.sample_routes")]


@pytest.fixture(autouse=True)
def _no_calls():
    sample_routes.calls.clear()


def post(world: World, body, key: str = "k1", role: str = "operator"):
    return world.api_client(role).post("/api/v1/echo", body, HTTP_IDEMPOTENCY_KEY=key)


def test_a_repeat_is_answered_from_memory(world: World):
    first = post(world, {"a": 1})
    again = post(world, {"a": 1})
    assert again.json() == first.json() == {"call": 1, "who": "olga"}
    assert again.status_code == first.status_code == 202
    assert again["Operation-Location"] == first["Operation-Location"]
    assert again["Idempotency-Replayed"] == "true"
    assert len(sample_routes.calls) == 1


def test_another_body_is_refused(world: World):
    post(world, {"a": 1})
    assert_problem(post(world, {"a": 2}), 422, "IDEMPOTENCY_KEY_REUSED")


def test_keys_belong_to_people_and_routes(world: World):
    post(world, {"a": 1})
    assert post(world, {"a": 1}, role="admin").json()["call"] == 2
    assert post(world, {"a": 1}, key="k2").json()["call"] == 3


def test_while_the_first_runs_the_second_waits_its_turn(world: World):
    post(world, {"a": 1})
    IdempotencyRecord.objects.update(status=None)
    assert_problem(post(world, {"a": 1}), 409, "IDEMPOTENT_CALL_RUNNING")


def test_a_first_call_whose_process_died_is_taken_over(world: World, clock: Clock):
    post(world, {"a": 1})
    IdempotencyRecord.objects.update(status=None)
    clock.advance(16 * 60)
    assert post(world, {"a": 1}).json()["call"] == 2


@pytest.mark.parametrize(("fail", "status"), [("conflict", 409), ("hard", 500)])
def test_a_failure_leaves_the_key_free(world: World, fail: str, status: int):
    assert post(world, {"fail": fail}).status_code == status
    assert post(world, {"mended": True}).status_code == 202


def test_answers_are_forgotten_after_a_day(world: World, clock: Clock):
    post(world, {"a": 1})
    clock.advance(86_401)
    assert idempotency_prune() == 1
    assert post(world, {"a": 2}).json()["call"] == 2


def test_files_count_as_part_of_the_body(world: World):
    def send(content: bytes):
        file = SimpleUploadedFile("m.onnx", content)
        return world.api_client().post(
            "/api/v1/files", {"file": file}, format="multipart", HTTP_IDEMPOTENCY_KEY="f"
        )

    assert send(b"one").json() == {"call": 1}
    assert send(b"one").json() == {"call": 1}
    assert_problem(send(b"two"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert sample_routes.calls == [b"one"], "the digest rewinds the file"
