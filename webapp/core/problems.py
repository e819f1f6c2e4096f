"""Every error of the REST API as a problem document (RFC 9457), with a stable reason and a request id."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, TooManyFieldsSent
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from webapp.core.errors import ControlPlaneError
from webapp.core.request_id import request_id_of
from webapp.core.runtime_faults import control_plane_error
from webapp.runtime_client.errors import RuntimeProblem

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
# What passes by itself, so that the same call can succeed later. Other conflicts need somebody to do
# something, or to look at what has changed and decide anew. An error may say better: `retryable=`.
_PASSING_STATUS = frozenset({429, 503})
_PASSING_CONFLICTS = frozenset(
    {
        "CONFIG_IN_PROGRESS",
        "DEPLOYMENT_IN_PROGRESS",
        "IDEMPOTENT_CALL_RUNNING",
        "MODEL_BUSY",
        "ROLLOUT_ACTIVE",
        "RUNTIME_UNREACHABLE",
        "STABLE_UNAVAILABLE",
        "TOO_MANY_BENCHMARKS",
        "VERSION_NOT_LOADED",
    }
)
_REASONS: list[tuple[type[Exception], int, str, str]] = [
    (Http404, 404, "Not found", "NOT_FOUND"),
    (PermissionDenied, 403, "Not allowed", "PERMISSION_DENIED"),
    (RequestDataTooBig, 413, "Too large", "BODY_TOO_LARGE"),
    (TooManyFieldsSent, 400, "Invalid input", "TOO_MANY_FIELDS"),
    (exceptions.AuthenticationFailed, 401, "Not signed in", "AUTHENTICATION_FAILED"),
    (exceptions.NotAuthenticated, 401, "Not signed in", "NOT_AUTHENTICATED"),
    (exceptions.PermissionDenied, 403, "Not allowed", "PERMISSION_DENIED"),
    (exceptions.NotFound, 404, "Not found", "NOT_FOUND"),
    (exceptions.MethodNotAllowed, 405, "Method not allowed", "METHOD_NOT_ALLOWED"),
    (exceptions.NotAcceptable, 406, "Not acceptable", "NOT_ACCEPTABLE"),
    (exceptions.UnsupportedMediaType, 415, "Unsupported media type", "UNSUPPORTED_MEDIA_TYPE"),
    (exceptions.ParseError, 400, "Invalid input", "MALFORMED_BODY"),
    (exceptions.Throttled, 429, "Too many requests", "THROTTLED"),
]


@dataclass(frozen=True)
class Problem:
    status: int
    title: str
    detail: str
    reason: str
    help_text: str = ""
    errors: tuple[dict[str, Any], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def retryable(self) -> bool:
        return self.status in _PASSING_STATUS or self.reason in _PASSING_CONFLICTS

    def body(self, request: Any = None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "type": f"/api/docs/#{self.reason.lower().replace('_', '-')}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "reason": self.reason,
            "retryable": self.retryable,
        }
        if request is not None:
            body["instance"] = request.get_full_path()
            body["request_id"] = request_id_of(request)
        if self.help_text:
            body["help"] = self.help_text
        if self.errors:
            body["errors"] = list(self.errors)
        return body | self.extra


def problem_json(request: Any, problem: Problem) -> JsonResponse:
    """A problem outside DRF: unknown paths, refused CSRF, errors in middleware."""
    return JsonResponse(problem.body(request), status=problem.status, content_type=CONTENT_TYPE)


def problem_handler(exc: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: nothing leaves the API in another shape."""
    request = context.get("request")
    set_rollback()
    problem = problem_of(exc)
    if problem.status >= 500:
        logger.error(
            "%s %s failed (request %s)",
            getattr(request, "method", "?"),
            getattr(request, "path", "?"),
            request_id_of(request),
            exc_info=exc,
        )
    response = Response(problem.body(request), status=problem.status)
    response.content_type = CONTENT_TYPE
    for name, value in _headers(exc, problem.status).items():
        response[name] = value
    return response


def problem_of(exc: Exception) -> Problem:
    if isinstance(exc, RuntimeProblem):
        exc = control_plane_error(exc)
    if isinstance(exc, ControlPlaneError):
        return Problem(
            status=exc.status,
            title=exc.title,
            detail=exc.detail,
            reason=exc.reason,
            help_text=exc.help_text,
            errors=tuple(exc.errors),
            extra=exc.extra,
        )
    if isinstance(exc, exceptions.ValidationError):
        return Problem(
            status=400,
            title="Invalid input",
            detail="The request has fields that cannot be accepted; see `errors`.",
            reason="VALIDATION_FAILED",
            errors=tuple(_field_errors(exc.detail, "")),
        )
    for kind, status, title, reason in _REASONS:
        if isinstance(exc, kind):
            return Problem(status=status, title=title, detail=_sentence(exc, title), reason=reason)
    if isinstance(exc, exceptions.APIException):
        return Problem(
            status=exc.status_code,
            title="Request failed",
            detail=str(exc.detail),
            reason=str(exc.default_code).upper(),
        )
    return Problem(
        status=500,
        title="Internal error",
        detail="Something went wrong on our side. The log has the details under this request id.",
        reason="INTERNAL",
    )


def _sentence(exc: Exception, fallback: str) -> str:
    detail = str(getattr(exc, "detail", "") or exc)
    return detail or f"{fallback}."


def _field_errors(detail: Any, pointer: str) -> Iterator[dict[str, Any]]:
    """DRF's nested lists and dicts, flattened to JSON pointers."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _field_errors(inner, f"{pointer}/{name}")
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            deeper = f"{pointer}/{index}" if isinstance(inner, dict | list) else pointer
            yield from _field_errors(inner, deeper)
    else:
        yield {
            "pointer": pointer or "/",
            "detail": str(detail),
            "code": getattr(detail, "code", ""),
        }


def _headers(exc: Exception, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(exc, "wait", None)) is not None:
        headers["Retry-After"] = str(max(1, round(wait)))
    elif status in {429, 503}:
        retry = getattr(exc, "extra", {}).get("retry_after_seconds", 5)
        headers["Retry-After"] = str(retry)
    return headers
