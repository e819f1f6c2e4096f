"""Pages that belong to no app: health, errors, the API's documentation."""

import logging

from django.contrib.auth.views import redirect_to_login
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.templatetags.static import static

from webapp.core.api_reading import calls_by_tag
from webapp.core.problems import Problem, problem_json
from webapp.core.request_id import request_id_of

logger = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> HttpResponse:
    """200 while this process can answer and reach its database; asked by the supervisor."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        logger.warning("health check: %s", error)
        return JsonResponse({"status": "unavailable", "database": "does not answer"}, status=503)
    return JsonResponse({"status": "ok"})


def favicon(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=301, headers={"Location": static("img/favicon.svg")})


def strip(request: HttpRequest) -> HttpResponseBase:
    """The verdict strip by itself; every open page asks for it every few seconds."""
    if not request.user.is_authenticated:
        return HttpResponse(status=401)
    return render(request, "partials/_strip.html")


def api_docs(request: HttpRequest) -> HttpResponseBase:
    """The API for reading, with calls to copy. The machine's form is at /api/schema/."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    context = {
        "groups": calls_by_tag(),
        "address": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "core/api_docs.html", context)


def _error(request: HttpRequest, status: int, title: str, detail: str, reason: str) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem_json(
            request, Problem(status=status, title=title, detail=detail, reason=reason)
        )
    context = {
        "status": status,
        "title": title,
        "detail": detail,
        "request_id": request_id_of(request),
    }
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error(request, 400, "Bad request", "The request could not be read.", "BAD_REQUEST")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    detail = str(exception) or "You may not do this."
    return _error(request, 403, "Not allowed", detail, "PERMISSION_DENIED")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    detail = f"There is nothing at {request.path}."
    return _error(request, 404, "Not found", detail, "NOT_FOUND")


def server_error(request: HttpRequest) -> HttpResponse:
    detail = "Something went wrong on our side. The log has the details under the id below."
    return _error(request, 500, "Something went wrong", detail, "INTERNAL")
