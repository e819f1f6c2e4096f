"""`?validate_only=true` changes nothing: it is carried out dry, or refused."""

import pytest

from tests.world import World, assert_problem
from webapp.accounts.models import ApiToken, User
from webapp.catalog.models import InferenceModel

DRY = "?validate_only=true"


def test_a_call_without_a_dry_run_refuses_one(world: World) -> None:
    api = world.api_client("admin")
    people, tokens = User.objects.count(), ApiToken.objects.count()
    body = {"username": "eve", "role": "viewer"}
    assert_problem(api.post(f"/api/v1/people{DRY}", body), 400, "NO_DRY_RUN")
    assert_problem(api.post(f"/api/v1/tokens{DRY}", {"name": "x"}), 400, "NO_DRY_RUN")
    assert (User.objects.count(), ApiToken.objects.count()) == (people, tokens)


@pytest.mark.parametrize("dry_first", [True, False])
def test_a_dry_run_and_the_real_call_may_carry_the_same_key(world: World, dry_first: bool) -> None:
    api = world.api_client("operator")
    first, second = (DRY, "") if dry_first else ("", DRY)
    for query in (first, second):
        answer = api.post(f"/api/v1/models{query}", {"name": "m"}, HTTP_IDEMPOTENCY_KEY="k")
        assert "Idempotency-Replayed" not in answer
    assert InferenceModel.objects.filter(name="m").count() == 1
