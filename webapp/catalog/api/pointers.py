"""Aliases, stages and the log of stage switches."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.api.dry_run import tried
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
        actor = actor_of(request)
        if validate_only(request):
            return tried(
                lambda: alias_body(alias_set(model=model, name=alias, version=version, actor=actor))
            )
        row = alias_set(model=model, name=alias, version=version, actor=actor)
        return etag_response(request, row, alias_body(row), status=200 if known else 201)

    def delete(self, request: Request, name: str, alias: str) -> Response:
        model = model_get(name=name)
        row = alias_get(model=model, name=alias)
        check_if_match(request, row)
        if validate_only(request):
            return Response(alias_body(row))
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
        actor, reason, expected = actor_of(request), text_field(body, "reason"), _expected(body)

        def switched() -> dict[str, Any]:
            return promotion_body(
                stage_switch(
                    model=model,
                    stage=stage,
                    version=version,
                    actor=actor,
                    reason=reason,
                    expected=expected,
                )
            )

        return tried(switched) if validate_only(request) else Response(switched())


class PromotionList(ApiView):
    def get(self, request: Request, name: str) -> Response:
        """The log of stage switches, newest first."""
        return page(promotion_list(model=model_get(name=name)), request, promotion_body)


def _expected(body: dict[str, Any]) -> int | None:
    if "expected_version" not in body:
        return ANY
    return optional_whole_field(body, "expected_version")
