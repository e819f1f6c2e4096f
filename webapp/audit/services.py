"""Adds rows to the audit log; called inside the transaction of the change it tells of."""

from typing import Any

from django.contrib.auth.models import AbstractUser

from webapp.audit.models import AuditEvent


def audit_record(
    *,
    actor: AbstractUser | None,
    action: str,
    target: str,
    before: Any = None,
    after: Any = None,
    note: str = "",
) -> AuditEvent:
    """`action` is entity.verb, `target` the API path of what changed. No actor: the system itself."""
    return AuditEvent.objects.create(
        actor_id=actor.pk if actor is not None else None,
        actor_name=actor.get_username() if actor is not None else "system",
        action=action,
        target=target[:200],
        before=before,
        after=after,
        note=note[:500],
    )
