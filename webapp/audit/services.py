"""Adds rows to the audit log; called inside the transaction of the change it tells of."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.models import AbstractUser

from webapp.audit.models import AuditEvent

_cause: ContextVar[str] = ContextVar("audit_cause", default="")


@contextmanager
def audit_cause(*, cause: str) -> Iterator[None]:
    """Rows added inside say that they are part of this work: the API path of an operation or a
    rollout. The outermost cause stands: a rollout that a person's operation moves is theirs."""
    before = _cause.set(_cause.get() or cause)
    try:
        yield
    finally:
        _cause.reset(before)


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
        token=str(getattr(actor, "token_shown", ""))[:120],
        cause=_cause.get()[:200],
        action=action,
        target=target[:200],
        before=before,
        after=after,
        note=note[:500],
    )
