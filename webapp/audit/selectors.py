"""Reads of the audit log."""

from django.db.models import QuerySet

from webapp.audit.models import AuditEvent


def audit_list(
    *, target: str | None = None, action: str | None = None, actor_name: str | None = None
) -> QuerySet[AuditEvent]:
    """Newest first. `target` matches the path and everything below it."""
    rows = AuditEvent.objects.select_related("actor")
    if target:
        rows = rows.filter(target__startswith=target)
    if action:
        rows = rows.filter(action=action)
    if actor_name:
        rows = rows.filter(actor_name=actor_name)
    return rows
