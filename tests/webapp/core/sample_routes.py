"""A few API views that show every rule of ApiView; only tests route to them."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, actor_of, requires
from webapp.accounts.selectors import person_list
from webapp.core.api import (
    ApiView,
    body_of,
    call,
    filtered,
    ordered,
    page,
    page_list,
    validate_only,
)
from webapp.core.contract import FORM
from webapp.core.errors import Conflict, Unavailable
from webapp.core.json_schema import OBJECT, closed, file, flag
from webapp.core.parsers import JsonParser
from webapp.runtime_client.errors import RuntimeLacks, RuntimeRefused, RuntimeUnreachable

calls: list[object] = []
FIELDS = {"username": "username", "role": "role", "since": "date_joined"}


class Echo(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("getEcho", OBJECT, query={"validate_only": flag()})
    def get(self, request: Request) -> Response:
        return Response({"only": validate_only(request)})

    @call("echo", OBJECT, status=202, body=OBJECT)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        calls.append(body)
        if body.get("fail") == "conflict":
            raise Conflict("It is busy.", reason="BUSY", help_text="Wait.", holder="x")
        if body.get("fail") == "hard":
            raise ZeroDivisionError("oops")
        return Response(
            {"call": len(calls), "who": actor_of(request).username},
            status=202,
            headers={"Operation-Location": "/api/v1/operations/op_x"},
        )


class Files(ApiView):
    write_action = Action.MANAGE_MODELS
    parser_classes = [MultiPartParser, JsonParser]

    @call("sendFile", OBJECT, status=201, body=closed({"file": file("Any.")}), media_type=FORM)
    def post(self, request: Request) -> Response:
        calls.append(request.FILES["file"].read())
        return Response({"call": len(calls)}, status=201)


class Faults(ApiView):
    @call("fail", None)
    def get(self, request: Request, kind: str) -> Response:
        errors: dict[str, Exception] = {
            "404": Http404(),
            "503": Unavailable("The runtime does not answer.", reason="RUNTIME_UNREACHABLE"),
            "unreachable": RuntimeUnreachable("connection refused"),
            "lacks": RuntimeLacks("switchyard_traffic"),
            "refused": RuntimeRefused("no such model", 400),
            "500": RuntimeError("secret detail"),
            "400": serializers.ValidationError({"steps": [{"weight": ["too big"]}], "name": "no"}),
        }
        raise errors[kind]


class People(ApiView):
    @call("listSamplePeople", OBJECT, paged=True, filters=FIELDS, orders=FIELDS)
    def get(self, request: Request) -> Response:
        rows = ordered(filtered(person_list(), request, FIELDS), request, FIELDS)
        return page(rows, request, lambda person: person.username)


class Numbers(ApiView):
    @call("listNumbers", OBJECT, paged=True)
    def get(self, request: Request) -> Response:
        return page_list(range(7), request, lambda number: number)


@requires(Action.ROLLOUT)
def busy_page(request: HttpRequest) -> HttpResponse:
    raise Conflict("It is busy.", reason="BUSY", help_text="Wait a moment.")


def broken_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(User.objects.get(username="nobody at all"))


urlpatterns = [
    path("api/v1/echo", Echo.as_view()),
    path("api/v1/files", Files.as_view()),
    path("api/v1/faults/<str:kind>", Faults.as_view()),
    path("api/v1/sample-people", People.as_view()),
    path("api/v1/numbers", Numbers.as_view()),
    path("busy/", busy_page),
    path("broken/", broken_page),
    path("", include("webapp.urls")),
]
handler400 = "webapp.core.views.bad_request"
handler403 = "webapp.core.views.permission_denied"
handler404 = "webapp.core.views.page_not_found"
handler500 = "webapp.core.views.server_error"
