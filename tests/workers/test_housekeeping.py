"""What is only needed for a while is gone afterwards."""

import pytest
from django.contrib.sessions.models import Session

from tests.fakes.clock import Clock
from tests.world import World
from webapp.accounts.models import LoginFailure
from webapp.core.models import IdempotencyRecord
from workers.tasks.jobs import leftovers_prune

pytestmark = pytest.mark.django_db


def test_answers_failures_and_sessions_are_pruned(world: World, clock: Clock):
    world.client("viewer")
    world.client(None).post("/login/", {"username": "vic", "password": "wrong"})
    IdempotencyRecord.objects.create(
        user=world.vic, key="k", route="/", body_digest="x", status=200
    )
    leftovers_prune()
    assert LoginFailure.objects.count() == Session.objects.count() == 1
    assert IdempotencyRecord.objects.count() == 1
    clock.advance(15 * 86_400)
    leftovers_prune()
    assert not LoginFailure.objects.exists()
    assert not Session.objects.exists()
    assert not IdempotencyRecord.objects.exists()
