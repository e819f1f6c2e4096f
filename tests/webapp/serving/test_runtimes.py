"""Runtimes: registered, asked, changed, removed."""

import pytest

from tests.webapp.serving.steps import EDGE, deploy, undeploy
from webapp.audit.models import AuditEvent
from webapp.core.errors import Conflict, InvalidInput, PermissionRefused
from webapp.serving.choices import RuntimeHealth
from webapp.serving.models import Runtime
from webapp.serving.selectors import embedded_runtime
from webapp.serving.services import (
    runtime_ensure_embedded,
    runtime_register,
    runtime_remove,
    runtime_update,
)


def register(yard, name="edge", **more):
    given = {"addresses": EDGE, "actor": yard.world.ada} | more
    return runtime_register(name=name, **given)


def test_the_embedded_one_registers_itself_once_and_follows_its_ports(yard, settings):
    assert runtime_ensure_embedded().pk == yard.runtime.pk
    assert Runtime.objects.count() == 1
    settings.RUNTIME_GRPC_PORT = 18001
    assert runtime_ensure_embedded().grpc_address == "127.0.0.1:18001"
    assert embedded_runtime().grpc_address == "127.0.0.1:18001"


def test_a_probe_learns_name_version_extensions_and_health(yard):
    assert yard.runtime.server_name == "fake"
    assert yard.runtime.server_version == "1.0"
    assert "switchyard_traffic" in yard.runtime.extensions
    assert yard.runtime.health == RuntimeHealth.READY
    assert yard.runtime.last_seen_at is not None


def test_one_that_answers_is_registered_with_what_it_said(yard, edge):
    runtime = register(yard)
    assert runtime.health == RuntimeHealth.READY
    assert runtime.server_name == "fake"
    assert AuditEvent.objects.get(action="runtime.register", actor_name="ada").after == {
        "name": "edge", **EDGE, "metrics_address": "",
    }  # fmt: skip


def test_one_that_does_not_answer_is_refused_with_the_reason_unless_saved_anyway(yard, edge):
    edge.down = True
    with pytest.raises(Conflict, match="Connection refused") as refusal:
        register(yard)
    assert "save_anyway" in refusal.value.help_text
    assert not Runtime.objects.filter(name="edge").exists()
    runtime = register(yard, save_anyway=True)
    assert runtime.health == RuntimeHealth.UNREACHABLE
    edge.down = False
    yard.probe()
    runtime.refresh_from_db()
    assert runtime.health == RuntimeHealth.READY


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("http_address", "http://10.0.0.1:8000"),
        ("http_address", "10.0.0.1"),
        ("grpc_address", "10.0.0.1:99999"),
        ("grpc_address", ""),
        ("metrics_address", "10.0.0.1:x"),
        ("http_address", 8000),
        ("address", "10.0.0.1:8000"),
    ],
)
def test_addresses_that_cannot_be_are_refused_by_field(yard, field, value):
    with pytest.raises(InvalidInput) as refusal:
        register(yard, addresses=EDGE | {field: value})
    assert refusal.value.errors[0]["pointer"] == f"/{field}"


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 61, "a/b", "a:b", "ä"])
def test_names_that_cannot_be_are_refused(yard, name):
    with pytest.raises(InvalidInput):
        register(yard, name)


def test_names_and_addresses_are_taken_once(yard, edge):
    register(yard)
    with pytest.raises(Conflict, match="named 'edge'"):
        register(yard, addresses={"http_address": "1.1.1.1:1", "grpc_address": "1.1.1.1:2"})
    with pytest.raises(Conflict, match="of runtime edge already"):
        register(yard, "other")


def test_only_admins_manage_runtimes(yard, edge):
    with pytest.raises(PermissionRefused):
        register(yard, actor=yard.world.olga)
    runtime = register(yard)
    with pytest.raises(PermissionRefused):
        runtime_remove(runtime=runtime, actor=yard.world.olga)


def test_a_runtime_with_deployments_cannot_be_removed(yard, edge):
    runtime = register(yard)
    version = yard.publish(1)
    deploy(yard, version, runtime=runtime)
    with pytest.raises(Conflict, match="echo v1"):
        runtime_remove(runtime=runtime, actor=yard.world.ada)
    undeploy(yard, version, runtime=runtime, out_of_service=True)
    runtime_remove(runtime=runtime, actor=yard.world.ada)
    assert not Runtime.objects.filter(name="edge").exists()
    assert AuditEvent.objects.get(action="runtime.remove").before["name"] == "edge"


def test_the_embedded_one_cannot_be_removed_or_moved(yard):
    with pytest.raises(Conflict):
        runtime_remove(runtime=yard.runtime, actor=yard.world.ada)
    with pytest.raises(Conflict, match="process settings"):
        runtime_update(runtime=yard.runtime, addresses={}, actor=yard.world.ada)


def test_addresses_can_be_changed(yard, edge):
    runtime = register(yard)
    changed = runtime_update(
        runtime=runtime, addresses={"metrics_address": "10.0.0.1:8002"}, actor=yard.world.ada
    )
    assert changed.metrics_address == "10.0.0.1:8002"
    event = AuditEvent.objects.get(action="runtime.update")
    assert event.before["metrics_address"] == ""
    assert event.after["metrics_address"] == "10.0.0.1:8002"
