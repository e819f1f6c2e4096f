"""An upload's start is in the audit log, with who, what and how large."""

from tests.world import World
from webapp.audit.models import AuditEvent


def test_a_started_upload_is_in_the_audit_log(world: World) -> None:
    answer = world.api_client("operator").post(
        "/api/v1/uploads", {"model": "m", "filename": "a.onnx", "size_bytes": 12}
    )
    assert answer.status_code == 201, answer.content
    event = AuditEvent.objects.get(action="upload.start")
    assert event.actor_name == "olga"
    assert event.target == f"uploads/{answer.json()['id']}"
    assert event.after == {"model": "m", "file": "a.onnx", "size_bytes": 12}
