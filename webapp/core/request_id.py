"""Gives every request an id: taken from X-Request-Id when sane, answered in the same header, logged."""

import contextvars
import logging
import re
import secrets
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_current: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


def request_id_of(request: Any) -> str:
    """The id of a Django or DRF request; a fresh one where the middleware has not run."""
    found = getattr(request, "request_id", None)
    return found if isinstance(found, str) else secrets.token_hex(8)


class RequestIdMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _SANE.match(given) else secrets.token_hex(8)
        request.request_id = request_id  # type: ignore[attr-defined]
        token = _current.set(request_id)
        try:
            response = self._get_response(request)
        finally:
            _current.reset(token)
        response["X-Request-Id"] = request_id
        return response


class RequestIdFilter(logging.Filter):
    """Adds `request_id` to every log record; "-" outside a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
