"""REST: runtimes, deployments and serving configs."""

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get, version_get
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    etag_of,
    filtered,
    operation_response,
    ordered,
    page,
    page_list,
    tagged,
    tried,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import NO_FIELDS
from webapp.jobs.models import Job
from webapp.jobs.schema import OPERATION
from webapp.serving import schema, services
from webapp.serving.config_diff import diff_lines
from webapp.serving.models import Runtime
from webapp.serving.selectors import (
    deployment_list,
    placement_list,
    placement_of,
    runtime_get,
    runtime_list,
    serving_config_row,
)
from webapp.serving.serializers import (
    placement_body,
    runtime_body,
    runtime_tag,
    serving_config_body,
    serving_config_tag,
)

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


class ServingConfigItem(ApiView):
    write_action = Action.DEPLOY

    @call("getServingConfig", schema.SERVING_CONFIG, tagged=True)
    def get(self, request: Request, name: str) -> Response:
        """Read the serving settings of a model, and the config.pbtxt they make."""
        model = model_get(name=name)
        tag = etag_of(serving_config_tag(serving_config_row(model=model), model))
        return Response(serving_config_body(model), headers={"ETag": tag})

    @call(
        "setServingConfig",
        OPERATION,
        status=202,
        body=schema.SERVING_CONFIG_SET,
        dry_run=schema.SERVING_CONFIG_PREVIEW,
        if_match=IfMatch.NEEDED,
        refusal="INVALID_SERVING_CONFIG",
        example={"max_batch_size": 16, "max_queue_delay_microseconds": 500},
    )
    def put(self, request: Request, name: str) -> Response:
        """Replace the serving settings of a model: one left out gets its default.

        With ?validate_only=true the answer is the config there would be; nothing is reloaded.
        """
        model, actor = model_get(name=name), actor_of(request)
        body = body_of(request)
        values = body.get("settings", body)
        row = serving_config_row(model=model)
        check_if_match(request, serving_config_tag(row, model))

        def saved() -> Job:
            return services.serving_config_set(
                model=model,
                values=values,
                actor=actor,
                expected_revision=row.revision if row is not None else 0,
            )

        if not validate_only(request):
            return operation_response(saved())
        tried(lambda: _asked_body(saved()))
        return Response(_preview_body(model, values))


def _asked_or_tried(request: Request, ask: Callable[[], Job]) -> Response:
    """The operation; for a dry run what it would be, with every row of it undone."""
    if not validate_only(request):
        return operation_response(ask())
    return tried(lambda: _asked_body(ask()))


def _asked_body(job: Job) -> dict[str, Any]:
    return {"kind": job.kind, "target": job.target, "parameters": job.parameters}


def _preview_body(model: InferenceModel, values: dict[str, Any]) -> dict[str, Any]:
    preview = services.serving_config_preview(model=model, values=values)
    return {
        "model": model.name,
        "settings": preview.values.to_json(),
        "config": preview.text,
        "config_before": preview.before,
        "max_batch_size": preview.max_batch_size,
        "diff": [
            f"{line.sign} {line.text}"
            for line in diff_lines(preview.before, preview.text)
            if line.kind != "same"
        ],
    }


def _shown(runtime: Runtime) -> Response:
    return tagged(runtime_tag(runtime), runtime_body(runtime))


def _addresses(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _ADDRESSES if body.get(name) is not None}


def _runtime_in(body: dict[str, Any]) -> Runtime | None:
    return runtime_get(name=body["runtime"]) if body.get("runtime") else None


def _wrong(name: str, detail: str) -> InvalidInput:
    return InvalidInput(
        f"{name}: {detail}",
        reason="VALIDATION_FAILED",
        errors=[{"pointer": f"/{name}", "detail": detail, "code": "invalid"}],
    )
