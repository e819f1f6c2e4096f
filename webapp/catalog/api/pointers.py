"""Aliases, stages and the log of stage switches."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.choices import Stage
from webapp.catalog.models import Alias
from webapp.catalog.selectors import (
    alias_get,
    alias_map,
    model_get,
    promotion_list,
    stage_map,
    version_get,
)
from webapp.catalog.serializers import alias_body, promotion_body
from webapp.catalog.services import alias_delete, alias_set, stage_switch
from webapp.catalog.services.pointers import ANY
from webapp.core.api import (
    ApiView,
    body_of,
    check_if_match,
    etag_response,
    page,
    page_list,
    validate_only,
)
from webapp.uploads.fields import optional_whole_field, text_field, whole_field


class AliasList(ApiView):
    def get(self, request: Request, name: str) -> Response:
        rows = sorted(alias_map(model=model_get(name=name)).items())
        return page_list(rows, request, lambda row: {"alias": row[0], "version": row[1]})


class AliasDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    def get(self, request: Request, name: str, alias: str) -> Response:
        row = alias_get(model=model_get(name=name), name=alias)
        return etag_response(request, row, alias_body(row))

    def put(self, request: Request, name: str, alias: str) -> Response:
        """`{"version": 3}`. Moving an alias needs If-Match; a new one needs nothing."""
        model = model_get(name=name)
        known = Alias.objects.filter(model=model, name=alias).first()
        if known is not None:
            check_if_match(request, known)
        version = version_get(name=name, number=whole_field(body_of(request), "version"))
        row = alias_set(model=model, name=alias, version=version, actor=actor_of(request))
        return etag_response(request, row, alias_body(row), status=200 if known else 201)

    def delete(self, request: Request, name: str, alias: str) -> Response:
        model = model_get(name=name)
        check_if_match(request, alias_get(model=model, name=alias))
        alias_delete(model=model, name=alias, actor=actor_of(request))
        return Response(status=204)


class StageList(ApiView):
    def get(self, request: Request, name: str) -> Response:
        stages = stage_map(model=model_get(name=name))
        return page_list(
            Stage.values, request, lambda stage: {"stage": stage, "version": stages[stage]}
        )


class StageSet(ApiView):
    write_action = Action.MANAGE_MODELS

    def post(self, request: Request, name: str, stage: str) -> Response:
        """`{"version": 4, "expected_version": 3, "reason": "…"}`; null expects that nothing is set."""
        model = model_get(name=name)
        body = body_of(request)
        version = version_get(name=name, number=whole_field(body, "version"))
        if validate_only(request):
            return Response({"model": name, "stage": stage, "version": version.number})
        promotion = stage_switch(
            model=model,
            stage=stage,
            version=version,
            actor=actor_of(request),
            reason=text_field(body, "reason"),
            expected=_expected(body),
        )
        return Response(promotion_body(promotion))


class PromotionList(ApiView):
    def get(self, request: Request, name: str) -> Response:
        """The log of stage switches, newest first."""
        return page(promotion_list(model=model_get(name=name)), request, promotion_body)


def _expected(body: dict[str, Any]) -> int | None:
    if "expected_version" not in body:
        return ANY
    return optional_whole_field(body, "expected_version")
