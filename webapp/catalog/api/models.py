"""`/models`: list, register, read, describe, delete."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get, model_list
from webapp.catalog.serializers import model_body
from webapp.catalog.services import (
    model_delete,
    model_delete_check,
    model_register,
    model_update,
)
from webapp.core.api import (
    ApiView,
    body_of,
    check_if_match,
    etag_response,
    filtered,
    ordered,
    page,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.uploads.fields import text_field
from webapp.uploads.names import name_check

_FIELDS = {"name": "name", "created_at": "created_at"}


class ModelList(ApiView):
    write_action = Action.MANAGE_MODELS

    def get(self, request: Request) -> Response:
        """All models by name. `?search=res` keeps those whose name holds the text."""
        rows = model_list()
        if text := request.query_params.get("search"):
            rows = rows.filter(name__icontains=text)
        rows = ordered(filtered(rows, request, _FIELDS), request, _FIELDS)
        return page(rows, request, model_body)

    def post(self, request: Request) -> Response:
        """Registers a model; its versions come with uploads."""
        body = body_of(request)
        name = text_field(body, "name")
        if validate_only(request):
            name_check(name, field="name")
            return Response({"name": name})
        model = model_register(
            name=name, description=text_field(body, "description"), actor=actor_of(request)
        )
        location = {"Location": f"/api/v1/models/{model.name}"}
        return Response(model_body(model), status=201, headers=location)


class ModelDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    def get(self, request: Request, name: str) -> Response:
        model = model_get(name=name)
        return etag_response(request, model, model_body(model))

    def patch(self, request: Request, name: str) -> Response:
        model = self._for_write(request, name)
        body = body_of(request)
        if unknown := sorted(set(body) - {"description"}):
            raise InvalidInput(
                f"{unknown[0]} of a model cannot be changed; only its description can.",
                reason="UNKNOWN_FIELD",
                errors=[{"pointer": f"/{unknown[0]}", "detail": "cannot be changed"}],
            )
        if "description" in body and not validate_only(request):
            model_update(
                model=model,
                description=text_field(body, "description"),
                actor=actor_of(request),
            )
        return etag_response(request, model, model_body(model))

    def delete(self, request: Request, name: str) -> Response:
        """The model with all versions and files; refused while one is deployed.

        With ?validate_only=true nothing goes: the answer names the versions that would.
        """
        model = self._for_write(request, name)
        if validate_only(request):
            numbers = model_delete_check(model=model, actor=actor_of(request))
            return Response({"name": model.name, "versions": numbers})
        model_delete(model=model, actor=actor_of(request))
        return Response(status=204)

    def _for_write(self, request: Request, name: str) -> InferenceModel:
        model = model_get(name=name)
        check_if_match(request, model)
        return model
