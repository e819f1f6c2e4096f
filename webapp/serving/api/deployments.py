"""REST: versions loaded on runtimes and unloaded, and where they are."""

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.selectors import model_get, version_get
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    operation_response,
    page_list,
    tried,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.jobs.models import Job
from webapp.jobs.schema import OPERATION
from webapp.serving import schema, services
from webapp.serving.models import Runtime
from webapp.serving.selectors import deployment_list, placement_list, placement_of, runtime_get
from webapp.serving.serializers import placement_body, plan_body


class RuntimePlacements(ApiView):
    @call("listPlacements", schema.PLACEMENTS, paged=True)
    def get(self, request: Request, name: str) -> Response:
        """List what a runtime should have loaded, and what it has; also what we did not put there."""
        return page_list(placement_list(runtime=runtime_get(name=name)), request, placement_body)


class ModelPlacements(ApiView):
    @call("listPlacementsOfModel", schema.PLACEMENTS, paged=True)
    def get(self, request: Request, name: str) -> Response:
        """List where the versions of a model are."""
        rows = deployment_list(model=model_get(name=name))
        return page_list([placement_of(deployment=row) for row in rows], request, placement_body)


class VersionDeploy(ApiView):
    write_action = Action.DEPLOY

    @call(
        "deployVersion",
        OPERATION,
        status=202,
        body=schema.DEPLOY,
        dry_run=schema.DEPLOYMENT_PLAN,
        if_match=IfMatch.TAKEN,
        example={"runtime": "local"},
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        """Load a version on a runtime, beside those already there.

        With ?validate_only=true nothing is loaded: the answer says that it could be, or why not.
        """
        body = body_of(request)
        traffic = body.get("traffic") or ""
        if traffic not in ("", services.ALL):
            raise _wrong("traffic", 'Leave it out, or send "all".')
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        runtime, allow_unsplit = _runtime_in(body), body.get("allow_unsplit", False)
        return _asked_or_tried(
            request,
            lambda: services.deployment_request(
                version=version,
                runtime=runtime,
                actor=actor_of(request),
                traffic=traffic,
                allow_unsplit=allow_unsplit,
            ),
        )


class VersionUndeploy(ApiView):
    write_action = Action.DEPLOY

    @call(
        "undeployVersion",
        OPERATION,
        status=202,
        body=schema.UNDEPLOY,
        dry_run=schema.DEPLOYMENT_PLAN,
        if_match=IfMatch.TAKEN,
        example={"runtime": "local"},
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        """Unload a version. Requests in flight are answered first.

        With ?validate_only=true nothing is unloaded: the answer says that it could be, or why not.
        """
        body = body_of(request)
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        runtime, out_of_service = _runtime_in(body), body.get("out_of_service", False)
        return _asked_or_tried(
            request,
            lambda: services.deployment_remove(
                version=version,
                runtime=runtime,
                actor=actor_of(request),
                out_of_service=out_of_service,
            ),
        )


def _asked_or_tried(request: Request, ask: Callable[[], Job]) -> Response:
    """The operation; for a dry run what it would be, with every row of it undone."""
    if not validate_only(request):
        return operation_response(ask())
    return tried(lambda: plan_body(ask()))


def _runtime_in(body: dict[str, Any]) -> Runtime | None:
    return runtime_get(name=body["runtime"]) if body.get("runtime") else None


def _wrong(name: str, detail: str) -> InvalidInput:
    return InvalidInput(
        f"{name}: {detail}",
        reason="VALIDATION_FAILED",
        errors=[{"pointer": f"/{name}", "detail": detail, "code": "invalid"}],
    )
