"""REST: operations, which is what the API calls jobs."""

import time

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.core.api import ApiView, check_if_match, etag_response, filtered, ordered, page
from webapp.core.errors import InvalidInput
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
    """All long work, newest first."""

    def get(self, request: Request) -> Response:
        rows = ordered(filtered(job_list(), request, _FILTERS), request, _ORDERS)
        return page(rows, request, operation_body)


class OperationItem(ApiView):
    def get(self, request: Request, job_id: str) -> Response:
        return _shown(request, job_get(job_id=job_id))


class OperationCancel(ApiView):
    has_dry_run = False
    write_action = Action.CANCEL_JOBS

    def post(self, request: Request, job_id: str) -> Response:
        job = job_get(job_id=job_id)
        check_if_match(request, job)
        return _shown(request, job_cancel(job=job, actor=actor_of(request)))


class OperationWait(ApiView):
    """Answers when the operation has ended, or after `timeout` seconds with what is known then."""

    def get(self, request: Request, job_id: str) -> Response:
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
