"""Every change of a deployment, a serving config or a runtime leaves exactly one row, with its cause."""

import pytest

from tests.webapp.serving.steps import deploy, two_versions, undeploy
from webapp.audit.models import AuditEvent
from webapp.jobs.services import job_cancel
from webapp.serving.services import (
    deployment_request,
    reconcile_request,
    runtime_ensure_embedded,
    serving_config_set,
)


def rows(prefix: str, *, after: int = 0) -> list[AuditEvent]:
    found = AuditEvent.objects.filter(action__startswith=prefix, id__gt=after)
    return list(found.order_by("id"))


def last_id() -> int:
    return AuditEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0


def states(events: list[AuditEvent]) -> list[tuple[str, str, str]]:
    return [(e.action, e.before.get("state", ""), e.after["state"]) for e in events]


def test_a_deploy_is_a_wish_of_a_person_and_a_load_by_the_operation(yard):
    job = deploy(yard, yard.publish(1))
    asked, *done = rows("deployment.")
    assert (asked.actor_name, asked.action, asked.cause) == ("olga", "deployment.request", "")
    assert states(done) == [
        ("deployment.load_begin", "PENDING", "LOADING"),
        ("deployment.load", "LOADING", "AVAILABLE"),
    ]
    assert {(e.actor_name, e.cause, e.target) for e in done} == {
        ("system", f"operations/{job.id}", "models/echo/versions/1")
    }
    assert [e.cause for e in rows("traffic.set")] == [f"operations/{job.id}"]


def test_a_load_that_fails_says_why(yard):
    deploy(yard, yard.broken(1))
    (failed,) = rows("deployment.load_fail")
    assert (failed.before["state"], failed.after["state"]) == ("LOADING", "FAILED")
    assert failed.note


def test_an_undeploy_ends_with_an_unload(yard):
    _, second = two_versions(yard)
    before = last_id()
    job = undeploy(yard, second)
    asked, *done = rows("deployment.", after=before)
    assert (asked.action, asked.before["wanted"], asked.after["wanted"]) == (
        "deployment.remove", True, False,
    )  # fmt: skip
    assert states(done)[-1] == ("deployment.unload", "AVAILABLE", "UNLOADED")
    assert {e.cause for e in done} == {f"operations/{job.id}"}


def test_a_cancelled_deploy_is_given_up_and_cancelling_again_changes_nothing(yard):
    version = yard.publish(1)
    job = deployment_request(version=version, actor=yard.world.olga)
    job_cancel(job=job, actor=yard.world.ada)
    (given_up,) = rows("deployment.give_up")
    assert given_up.cause == f"operations/{job.id}"
    assert (given_up.before["wanted"], given_up.after["wanted"]) == (True, False)
    assert [e.actor_name for e in rows("job.cancel")] == ["ada"]


def test_what_the_reconciler_repairs_is_told_with_its_operation(yard):
    deploy(yard, yard.publish(1))
    before = last_id()
    yard.fake.restart(keep_state=False)
    (job,) = yard.probe()
    events = rows("deployment.", after=before)
    assert states(events) == [
        ("deployment.wait", "AVAILABLE", "PENDING"),
        ("deployment.load_begin", "PENDING", "LOADING"),
        ("deployment.load", "LOADING", "AVAILABLE"),
    ]
    assert events[-1].cause == f"operations/{job.id}"
    assert {e.actor_name for e in events} == {"system"}


def test_a_serving_config_is_asked_for_once_and_applied_once(yard):
    two_versions(yard)
    job = serving_config_set(model=yard.model, values={"max_batch_size": 16}, actor=yard.world.olga)
    yard.work()
    asked, applied = rows("serving_config.")
    assert (asked.action, asked.actor_name) == ("serving_config.set", "olga")
    assert (applied.action, applied.cause) == ("serving_config.apply", f"operations/{job.id}")
    assert applied.before == {"revision": 0, "values": None}
    assert applied.after["values"]["max_batch_size"] == 16


def test_a_refused_serving_config_says_what_stays(yard):
    two_versions(yard)
    yard.fake.refuse_load["echo"] = "no memory left"
    serving_config_set(model=yard.model, values={"max_batch_size": 16}, actor=yard.world.olga)
    yard.work()
    _, refused = rows("serving_config.")
    assert refused.action == "serving_config.refuse"
    assert refused.after == {"revision": 0, "values": None, "refused": 1}
    assert "no memory left" in refused.note


def test_other_ports_of_the_embedded_runtime_are_told(yard, settings, monkeypatch):
    before = yard.runtime.http_address
    moved = {"http_address": "127.0.0.1:7777", "grpc_address": yard.runtime.grpc_address}
    monkeypatch.setattr(
        "webapp.serving.services.runtimes.embedded_addresses",
        lambda: moved | {"metrics_address": yard.runtime.metrics_address},
    )
    runtime_ensure_embedded()
    (event,) = rows("runtime.update")
    assert (event.before["http_address"], event.after["http_address"]) == (
        before, "127.0.0.1:7777",
    )  # fmt: skip


@pytest.mark.parametrize("asked", [True, False])
def test_a_reconcile_is_told_when_a_person_asks_for_it(yard, asked):
    actor = yard.world.olga if asked else None
    job = reconcile_request(runtime=yard.runtime, actor=actor)
    reconcile_request(runtime=yard.runtime, actor=actor)  # the same open operation
    assert [e.after for e in rows("runtime.reconcile")] == [{"operation": job.id}] * asked
