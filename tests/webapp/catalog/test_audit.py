"""What the checks decide about a version is in the audit log, once, with the operation behind it."""

from tests import onnx_models
from tests.publishing import Publishing, onnx_bytes
from webapp.audit.models import AuditEvent
from webapp.catalog.services import version_recheck
from webapp.jobs.selectors import job_get
from webapp.jobs.services import job_cancel
from workers.tasks import catalog as tasks

ADD_SUB = onnx_bytes(onnx_models.add_sub("FP32"))


def told(action: str) -> AuditEvent:
    return AuditEvent.objects.get(action=action)


def actions() -> list[str]:
    found = AuditEvent.objects.filter(action__startswith="version.").order_by("id")
    return list(found.values_list("action", flat=True))


def test_an_upload_that_passes_is_created_checked_and_accepted(publishing: Publishing) -> None:
    operation = publishing.send("adder", ADD_SUB).json()
    tasks.inspect_version(operation["id"])
    assert actions() == ["version.create", "version.check", "version.accept"]
    created, accepted = told("version.create"), told("version.accept")
    assert (created.actor_name, created.cause) == ("olga", "")
    assert created.token.startswith("test operator (sy_")
    assert (accepted.actor_name, accepted.cause) == ("system", f"operations/{operation['id']}")
    assert accepted.before == {"state": "VALIDATING"}
    assert accepted.after["state"] == "READY"
    assert accepted.after["digest"]


def test_an_upload_that_is_refused_names_the_check(publishing: Publishing) -> None:
    operation = publishing.send("adder", b"not a model").json()
    tasks.inspect_version(operation["id"])
    assert actions() == ["version.create", "version.check", "version.reject"]
    assert told("version.reject").after["state"] == "REJECTED"
    assert "failed" in told("version.reject").after["checks"].values()


def test_a_cancelled_check_rejects_once(publishing: Publishing) -> None:
    operation = publishing.send("adder", ADD_SUB).json()
    job_cancel(job=job_get(job_id=operation["id"]), actor=publishing.world.olga)
    rejected = told("version.reject")
    assert rejected.cause == f"operations/{operation['id']}"
    assert (rejected.before["state"], rejected.after["state"]) == ("QUARANTINED", "REJECTED")


def test_a_recheck_is_asked_for_and_answered(publishing: Publishing) -> None:
    version = publishing.upload("adder", ADD_SUB)
    first = version.inspection_id
    job = version_recheck(version=version, actor=publishing.world.olga)
    tasks.inspect_version(job.id)
    asked, answered = told("version.validate"), told("version.recheck")
    assert (asked.before, asked.after) == ({"operation": first}, {"operation": job.id})
    assert answered.cause == f"operations/{job.id}"
    assert answered.before["state"] == answered.after["state"] == "READY"
