"""Turns our own errors, raised by a page, into a page that says what to do."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.core.errors import ControlPlaneError
from webapp.core.problems import problem_json, problem_of
from webapp.core.request_id import request_id_of
from webapp.core.runtime_faults import control_plane_error
from webapp.runtime_client.errors import RuntimeProblem


class PageErrorsMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, RuntimeProblem):
            exception = control_plane_error(exception)
        if not isinstance(exception, ControlPlaneError):
            return None
        if request.path.startswith("/api/"):
            return problem_json(request, problem_of(exception))
        context = {
            "status": exception.status,
            "title": exception.title,
            "detail": exception.detail,
            "fix": exception.help_text,
            "request_id": request_id_of(request),
        }
        template = "error.html"
        if request.headers.get("HX-Request") == "true":
            template = "partials/_error.html"
        return render(request, template, context, status=exception.status)
