"""The audit log: rows outlive the people in them and are only ever added."""

import pytest

from tests.world import World
from webapp.audit.models import AuditEvent
from webapp.audit.selectors import audit_list
from webapp.audit.services import audit_record

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
