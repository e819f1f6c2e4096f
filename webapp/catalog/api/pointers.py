"""Aliases, stages and the log of stage switches."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog import schema
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
    IfMatch,
    body_of,
    call,
    check_if_match,
    etag_response,
    if_match_tags,
    page,
    page_list,
    tried,
    validate_only,
)
from webapp.core.errors import PreconditionFailed
from webapp.uploads.fields import optional_whole_field, text_field, whole_field


class AliasList(ApiView):
    @call("listAliases", schema.ALIASES, paged=True)
    def get(self, request: Request, name: str) -> Response:
        """List the aliases of a model by name."""
        rows = sorted(alias_map(model=model_get(name=name)).items())
        return page_list(rows, request, lambda row: {"alias": row[0], "version": row[1]})


class AliasDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("getAlias", schema.ALIAS, tagged=True, revalidated=True)
    def get(self, request: Request, name: str, alias: str) -> Response:
        """Read which version an alias points at."""
        row = alias_get(model=model_get(name=name), name=alias)
        return etag_response(request, row, alias_body(row))

    @call(
        "setAlias",
        schema.ALIAS,
        also=(201,),
        body=schema.ALIAS_SET,
        dry_run=schema.ALIAS,
        if_match=IfMatch.NEEDED,
        tagged=True,
        example={"version": 3},
    )
    def put(self, request: Request, name: str, alias: str) -> Response:
        """Point an alias at a version. Moving one needs If-Match; a new one needs nothing."""
        model = model_get(name=name)
        known = Alias.objects.filter(model=model, name=alias).first()
        if known is not None:
            check_if_match(request, known)
        elif if_match_tags(request):
            raise PreconditionFailed(
                f"There is no alias {alias} of {name} any more.",
                reason="ETAG_MISMATCH",
                help_text="Repeat without If-Match to make it.",
            )
        version = version_get(name=name, number=whole_field(body_of(request), "version"))
        actor = actor_of(request)
        if validate_only(request):
            return tried(
                lambda: alias_body(alias_set(model=model, name=alias, version=version, actor=actor))
            )
        row = alias_set(model=model, name=alias, version=version, actor=actor)
        return etag_response(request, row, alias_body(row), status=200 if known else 201)

    @call("deleteAlias", None, status=204, dry_run=schema.ALIAS, if_match=IfMatch.NEEDED)
    def delete(self, request: Request, name: str, alias: str) -> Response:
        """Delete an alias; the version stays."""
        model = model_get(name=name)
        row = alias_get(model=model, name=alias)
        check_if_match(request, row)
        if validate_only(request):
            return Response(alias_body(row))
        alias_delete(model=model, name=alias, actor=actor_of(request))
        return Response(status=204)


class StageList(ApiView):
    @call("listStages", schema.STAGES, paged=True)
    def get(self, request: Request, name: str) -> Response:
        """List the stages of a model and the versions they point at."""
        stages = stage_map(model=model_get(name=name))
        return page_list(
            Stage.values, request, lambda stage: {"stage": stage, "version": stages[stage]}
        )


class StageSet(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "setStage",
        schema.PROMOTION,
        body=schema.STAGE_SET,
        dry_run=schema.PROMOTION,
        faults=(412,),
        example={"version": 4, "expected_version": 3, "reason": "passed the night"},
    )
    def post(self, request: Request, name: str, stage: str) -> Response:
        """Point a stage at a version.

        `expected_version` guards against what one has not seen, as If-Match does elsewhere; null
        expects that nothing is set.
        """
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
    @call("listPromotions", schema.PROMOTIONS, paged=True)
    def get(self, request: Request, name: str) -> Response:
        """List the stage switches of a model, newest first."""
        return page(promotion_list(model=model_get(name=name)), request, promotion_body)


def _expected(body: dict[str, Any]) -> int | None:
    if "expected_version" not in body:
        return ANY
    return optional_whole_field(body, "expected_version")
