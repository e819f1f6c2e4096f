"""Rows of the audit log as the API shows them."""

from typing import Any

from webapp.audit.models import AuditEvent


def audit_body(event: AuditEvent) -> dict[str, Any]:
    return {
        "id": event.pk,
        "at": event.at.isoformat(),
        "actor": event.actor_name,
        "token": event.token,
        "cause": event.cause,
        "action": event.action,
        "target": event.target,
        "before": event.before,
        "after": event.after,
        "note": event.note,
    }
