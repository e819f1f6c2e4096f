"""The shape of long work in the API. A job is such work; this module does not know jobs."""

from typing import Any, Protocol

from rest_framework.response import Response


class Operation(Protocol):
    """What is shown of long work; `webapp.jobs.models.Job` has all of it."""

    @property
    def id(self) -> Any: ...
    @property
    def kind(self) -> Any: ...
    @property
    def state(self) -> Any: ...
    @property
    def progress(self) -> Any: ...
    @property
    def phase(self) -> Any: ...
    @property
    def target(self) -> Any: ...
    @property
    def result(self) -> Any: ...
    @property
    def error(self) -> Any: ...
    @property
    def attempt(self) -> Any: ...
    @property
    def cancel_requested(self) -> Any: ...
    @property
    def created_at(self) -> Any: ...
    @property
    def started_at(self) -> Any: ...
    @property
    def ended_at(self) -> Any: ...


def operation_body(job: Operation) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "progress": job.progress,
        "phase": job.phase,
        "target": job.target,
        "result": job.result,
        "error": job.error,
        "attempt": job.attempt,
        "cancel_requested": job.cancel_requested,
        "created_at": _iso(job.created_at),
        "started_at": _iso(job.started_at),
        "ended_at": _iso(job.ended_at),
    }


def operation_response(job: Operation, *, extra: dict[str, Any] | None = None) -> Response:
    """202: the operation, where to follow it, and when to look again."""
    location = f"/api/v1/operations/{job.id}"
    return Response(
        operation_body(job) | (extra or {}),
        status=202,
        headers={"Operation-Location": location, "Retry-After": "1"},
    )


def _iso(moment: Any) -> str | None:
    return moment.isoformat() if moment is not None else None
