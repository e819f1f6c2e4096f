"""What else must be settled when a job ends without success, such as the version it was checking."""

import logging
from collections.abc import Callable

from django.db import transaction

from webapp.audit.services import audit_cause
from webapp.jobs.choices import JobKind
from webapp.jobs.models import Job

logger = logging.getLogger(__name__)

Hook = Callable[[Job], None]

_hooks: dict[str, list[Hook]] = {}


def on_lost(kind: JobKind) -> Callable[[Hook], Hook]:
    """Registers a hook for jobs of `kind` that end FAILED or CANCELLED, by whatever way.

    It runs in the transaction that ends the job, with the job's last state and error, and must do
    nothing when its subject is settled already. Use as a decorator, or call `on_lost(kind)(hook)`.
    """

    def add(hook: Hook) -> Hook:
        found = _hooks.setdefault(kind.value, [])
        if hook not in found:
            found.append(hook)
        return hook

    return add


def run_hooks(job: Job) -> None:
    """A hook that fails is undone and logged; the job ends all the same."""
    for hook in _hooks.get(job.kind, []):
        try:
            with transaction.atomic(), audit_cause(cause=job.api_path):
                hook(job)
        except Exception:
            logger.exception("job %s (%s): what it leaves behind is not settled", job.id, job.kind)
