"""The audit log: rows outlive the people in them and are only ever added."""

import pytest

from tests.world import World
from webapp.audit.models import AuditEvent
from webapp.audit.selectors import audit_list
from webapp.audit.services import audit_cause, audit_record

pytestmark = pytest.mark.django_db


def test_a_row_names_its_actor_after_the_account_is_gone(world: World):
    audit_record(actor=world.olga, action="model.create", target="models/m", after={"name": "m"})
    world.olga.delete()
    event = AuditEvent.objects.get(action="model.create")
    assert (event.actor, event.actor_name) == (None, "olga")


def test_what_the_system_does_is_said_so(world: World):
    assert audit_record(actor=None, action="rollout.step", target="x").actor_name == "system"


def test_the_list_is_newest_first_and_follows_a_path_down(world: World):
    for target in ("models/m", "models/m/versions/1", "models/other"):
        audit_record(actor=world.ada, action="x.y", target=target)
    found = [event.target for event in audit_list(target="models/m")]
    assert found == ["models/m/versions/1", "models/m"]
    assert audit_list(actor_name="ada", action="x.y").count() == 3


def test_long_texts_are_cut_rather_than_refused(world: World):
    event = audit_record(actor=None, action="x.y", target="t" * 500, note="n" * 900)
    event.refresh_from_db()
    assert (len(event.target), len(event.note)) == (200, 500)


def test_a_row_says_what_work_it_is_part_of_and_the_outermost_counts(world: World):
    with audit_cause(cause="operations/op_1"), audit_cause(cause="models/m/rollouts/ro_1"):
        inside = audit_record(actor=None, action="x.y", target="x")
    assert inside.cause == "operations/op_1"
    assert audit_record(actor=None, action="x.y", target="x").cause == ""


def test_a_change_by_a_script_names_its_token(world: World):
    made = world.api_client().post("/api/v1/models", {"name": "resnet50"})
    assert made.status_code == 201
    listed = world.api_client("admin").get("/api/v1/audit-events?target=models/resnet50").json()
    (row,) = listed["items"]
    assert (row["actor"], row["action"]) == ("olga", "model.register")
    assert row["token"].startswith("test operator (sy_")


def test_the_page_names_token_cause_and_what_changed(world: World):
    with audit_cause(cause="operations/op_1"):
        audit_record(actor=None, action="version.accept", target="models/resnet50/versions/3")
    page = world.client("admin").get("/audit/").content.decode()
    assert '<a href="/models/resnet50/versions/3/"' in page
    assert "resnet50 v3" in page
    assert '<a href="/jobs/op_1/"' in page
