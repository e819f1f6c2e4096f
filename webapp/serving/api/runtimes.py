"""REST: runtimes, added, asked, changed, removed."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    filtered,
    operation_response,
    ordered,
    page,
    tagged,
)
from webapp.core.json_schema import NO_FIELDS
from webapp.jobs.schema import OPERATION
from webapp.serving import schema, services
from webapp.serving.models import Runtime
from webapp.serving.selectors import runtime_get, runtime_list
from webapp.serving.serializers import runtime_body, runtime_tag

_ADDRESSES = ("http_address", "grpc_address", "metrics_address")
_RUNTIME_FILTERS = {"health": "health", "name": "name"}


class RuntimeCollection(ApiView):
    write_action = Action.MANAGE_RUNTIMES

    @call(
        "listRuntimes",
        schema.RUNTIMES,
        paged=True,
        filters=_RUNTIME_FILTERS,
        orders=_RUNTIME_FILTERS,
        query={"health": schema.HEALTH},
    )
    def get(self, request: Request) -> Response:
        """List serving processes, ours and attached ones."""
        rows = filtered(runtime_list(), request, _RUNTIME_FILTERS)
        return page(ordered(rows, request, _RUNTIME_FILTERS), request, runtime_body)

    @call(
        "addRuntime",
        schema.RUNTIME,
        status=201,
        body=schema.RUNTIME_NEW,
        tagged=True,
        example={
            "name": "edge-1",
            "http_address": "10.0.0.7:8000",
            "grpc_address": "10.0.0.7:8001",
            "metrics_address": "10.0.0.7:8002",
        },
    )
    def post(self, request: Request) -> Response:
        """Add a runtime by its addresses.

        It is asked first; `save_anyway` adds it although it does not answer.
        """
        body = body_of(request)
        runtime = services.runtime_register(
            name=body["name"],
            addresses=_addresses(body),
            actor=actor_of(request),
            save_anyway=body.get("save_anyway", False),
        )
        answer = tagged(runtime_tag(runtime), runtime_body(runtime), status=201)
        answer["Location"] = f"/api/v1/runtimes/{runtime.name}"
        return answer


class RuntimeItem(ApiView):
    write_action = Action.MANAGE_RUNTIMES

    @call("getRuntime", schema.RUNTIME, tagged=True)
    def get(self, request: Request, name: str) -> Response:
        """Read a runtime: addresses, health, how many versions it should have and has."""
        return _shown(runtime_get(name=name))

    @call(
        "changeRuntime",
        schema.RUNTIME,
        body=schema.RUNTIME_CHANGE,
        if_match=IfMatch.NEEDED,
        tagged=True,
        example={"metrics_address": "10.0.0.7:8002"},
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the addresses of a runtime."""
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        body = body_of(request)
        runtime = services.runtime_update(
            runtime=runtime,
            addresses=_addresses(body),
            actor=actor_of(request),
            save_anyway=body.get("save_anyway", False),
        )
        return _shown(runtime)

    @call("removeRuntime", None, status=204, if_match=IfMatch.NEEDED)
    def delete(self, request: Request, name: str) -> Response:
        """Remove a runtime; what it serves it goes on serving."""
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        services.runtime_remove(runtime=runtime, actor=actor_of(request))
        return Response(status=204)


class RuntimeProbe(ApiView):
    write_action = Action.DEPLOY

    @call("probeRuntime", schema.RUNTIME, body=NO_FIELDS, if_match=IfMatch.TAKEN, tagged=True)
    def post(self, request: Request, name: str) -> Response:
        """Ask a runtime now how it is and what it has loaded."""
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        return _shown(services.runtime_probe(runtime=runtime))


class RuntimeReconcile(ApiView):
    write_action = Action.DEPLOY

    @call("reconcileRuntime", OPERATION, status=202, body=NO_FIELDS, if_match=IfMatch.TAKEN)
    def post(self, request: Request, name: str) -> Response:
        """Make a runtime match what is wanted of it."""
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        job = services.reconcile_request(runtime=runtime, actor=actor_of(request))
        return operation_response(job)


def _shown(runtime: Runtime) -> Response:
    return tagged(runtime_tag(runtime), runtime_body(runtime))


def _addresses(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _ADDRESSES if body.get(name) is not None}
