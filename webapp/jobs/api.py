"""REST: operations, which is what the API calls jobs."""

import time

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.core.api import (
    ApiView,
    IfMatch,
    call,
    check_if_match,
    etag_response,
    filtered,
    ordered,
    page,
)
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import NO_FIELDS, text
from webapp.jobs import schema
from webapp.jobs.choices import TERMINAL_STATES
from webapp.jobs.models import Job
from webapp.jobs.selectors import job_get, job_list
from webapp.jobs.serializers import operation_body
from webapp.jobs.services import job_cancel

MAX_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_FILTERS = {"state": "state", "kind": "kind", "target": "target", "created_at": "created_at"}
_ORDERS = {"created_at": "created_at", "kind": "kind", "state": "state"}


class OperationCollection(ApiView):
    @call(
        "listOperations",
        schema.OPERATIONS,
        paged=True,
        filters=_FILTERS,
        orders=_ORDERS,
        query={"state": schema.JOB_STATE, "kind": schema.JOB_KIND},
    )
    def get(self, request: Request) -> Response:
        """List all long work, newest first."""
        rows = ordered(filtered(job_list(), request, _FILTERS), request, _ORDERS)
        return page(rows, request, operation_body)


class OperationItem(ApiView):
    @call("getOperation", schema.OPERATION, tagged=True, revalidated=True)
    def get(self, request: Request, job_id: str) -> Response:
        """Read how far an operation has come, or how it ended."""
        return _shown(request, job_get(job_id=job_id))


class OperationCancel(ApiView):
    write_action = Action.CANCEL_JOBS

    @call(
        "cancelOperation",
        schema.OPERATION,
        body=NO_FIELDS,
        if_match=IfMatch.TAKEN,
        tagged=True,
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Cancel an operation.

        What runs stops at its next safe point: follow the operation until it has ended.
        """
        job = job_get(job_id=job_id)
        check_if_match(request, job)
        return _shown(request, job_cancel(job=job, actor=actor_of(request)))


class OperationWait(ApiView):
    @call(
        "waitForOperation",
        schema.OPERATION,
        tagged=True,
        revalidated=True,
        query={
            "timeout": text(
                f"Seconds, with or without an `s`; more than {MAX_WAIT_SECONDS:g} give "
                f"{MAX_WAIT_SECONDS:g}.",
                default="30",
            )
        },
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Wait until an operation has ended.

        After `timeout` seconds the answer is what is known then.
        """
        deadline = time.monotonic() + _timeout(request)
        job = job_get(job_id=job_id)
        while job.state not in TERMINAL_STATES and time.monotonic() < deadline:
            time.sleep(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
            job = job_get(job_id=job_id)
        return _shown(request, job)


def _shown(request: Request, job: Job) -> Response:
    return etag_response(request, job, operation_body(job))


def _timeout(request: Request) -> float:
    raw = request.query_params.get("timeout", "30")
    try:
        seconds = float(raw.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidInput(
            f"timeout: expected seconds from 0 to {MAX_WAIT_SECONDS:.0f}, got {raw!r}.",
            reason="BAD_PARAMETER",
        )
    return min(seconds, MAX_WAIT_SECONDS)
