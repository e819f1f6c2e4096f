"""`/models`: list, register, read, describe, delete."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog import schema
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
    IfMatch,
    body_of,
    call,
    check_if_match,
    filtered,
    ordered,
    page,
    tagged,
    tried,
    validate_only,
)
from webapp.core.json_schema import text
from webapp.uploads.fields import text_field

_FIELDS = {"name": "name", "created_at": "created_at"}


class ModelList(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "listModels",
        schema.MODELS,
        paged=True,
        filters=_FIELDS,
        orders=_FIELDS,
        query={"search": text("Keeps those whose name holds the text.")},
    )
    def get(self, request: Request) -> Response:
        """List all models by name."""
        rows = model_list()
        if text := request.query_params.get("search"):
            rows = rows.filter(name__icontains=text)
        rows = ordered(filtered(rows, request, _FIELDS), request, _FIELDS)
        return page(rows, request, model_body)

    @call(
        "createModel",
        schema.MODEL,
        status=201,
        body=schema.MODEL_NEW,
        dry_run=schema.MODEL,
        example={"name": "resnet50", "description": "ImageNet classes"},
    )
    def post(self, request: Request) -> Response:
        """Register a model; its versions come with uploads."""
        body, actor = body_of(request), actor_of(request)

        def registered() -> InferenceModel:
            return model_register(
                name=body["name"], description=text_field(body, "description"), actor=actor
            )

        if validate_only(request):
            return tried(lambda: model_body(registered()))
        model = registered()
        location = {"Location": f"/api/v1/models/{model.name}"}
        return Response(model_body(model), status=201, headers=location)


class ModelDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("getModel", schema.MODEL, tagged=True)
    def get(self, request: Request, name: str) -> Response:
        """Read a model."""
        model = model_get(name=name)
        return tagged(model, model_body(model))

    @call(
        "changeModel",
        schema.MODEL,
        body=schema.MODEL_CHANGE,
        dry_run=schema.MODEL,
        if_match=IfMatch.NEEDED,
        tagged=True,
        example={"description": "ImageNet classes"},
    )
    def patch(self, request: Request, name: str) -> Response:
        """Describe a model; nothing else of it can be changed."""
        model, actor = self._for_write(request, name), actor_of(request)
        body = body_of(request)

        def updated() -> dict[str, Any]:
            if "description" in body:
                model_update(model=model, description=text_field(body, "description"), actor=actor)
            return model_body(model)

        if validate_only(request):
            return tried(updated)
        changed = updated()
        return tagged(model, changed)

    @call(
        "deleteModel",
        None,
        status=204,
        dry_run=schema.MODEL_REMOVAL,
        if_match=IfMatch.NEEDED,
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a model with all versions and files; refused while one is deployed.

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
