"""REST: runtimes, deployments and serving configs."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get, version_get
from webapp.core.api import (
    ApiView,
    body_of,
    check_if_match,
    etag_of,
    filtered,
    operation_response,
    ordered,
    page,
    page_list,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.jobs.models import Job
from webapp.serving import services
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
    """Serving processes, ours and attached ones."""

    has_dry_run = False
    write_action = Action.MANAGE_RUNTIMES

    def get(self, request: Request) -> Response:
        rows = filtered(runtime_list(), request, _RUNTIME_FILTERS)
        return page(ordered(rows, request, _RUNTIME_FILTERS), request, runtime_body)

    def post(self, request: Request) -> Response:
        """Add one by its addresses (host:port). It is asked first; `save_anyway` skips the refusal."""
        body = _known_fields(request, {"name", "save_anyway", *_ADDRESSES})
        runtime = services.runtime_register(
            name=_text(body, "name"),
            addresses={name: body[name] for name in _ADDRESSES if name in body},
            actor=actor_of(request),
            save_anyway=_flag(body, "save_anyway"),
        )
        return Response(
            runtime_body(runtime),
            status=201,
            headers={"Location": f"/api/v1/runtimes/{runtime.name}", "ETag": _tag(runtime)},
        )


class RuntimeItem(ApiView):
    has_dry_run = False
    write_action = Action.MANAGE_RUNTIMES

    def get(self, request: Request, name: str) -> Response:
        runtime = runtime_get(name=name)
        return Response(runtime_body(runtime), headers={"ETag": _tag(runtime)})

    def patch(self, request: Request, name: str) -> Response:
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        body = _known_fields(request, {"save_anyway", *_ADDRESSES})
        runtime = services.runtime_update(
            runtime=runtime,
            addresses={name: body[name] for name in _ADDRESSES if name in body},
            actor=actor_of(request),
            save_anyway=_flag(body, "save_anyway"),
        )
        return Response(runtime_body(runtime), headers={"ETag": _tag(runtime)})

    def delete(self, request: Request, name: str) -> Response:
        runtime = runtime_get(name=name)
        check_if_match(request, runtime_tag(runtime))
        services.runtime_remove(runtime=runtime, actor=actor_of(request))
        return Response(status=204)


class RuntimeProbe(ApiView):
    """Ask the runtime now."""

    has_dry_run = False
    write_action = Action.DEPLOY

    def post(self, request: Request, name: str) -> Response:
        runtime = services.runtime_probe(runtime=runtime_get(name=name))
        return Response(runtime_body(runtime), headers={"ETag": _tag(runtime)})


class RuntimeReconcile(ApiView):
    """Make the runtime match what is wanted of it."""

    has_dry_run = False
    write_action = Action.DEPLOY

    def post(self, request: Request, name: str) -> Response:
        runtime = runtime_get(name=name)
        job = services.reconcile_request(runtime=runtime, actor=actor_of(request))
        return operation_response(job)


class RuntimePlacements(ApiView):
    """What the runtime should have loaded, and what it has; also what was not put there by us."""

    def get(self, request: Request, name: str) -> Response:
        return page_list(placement_list(runtime=runtime_get(name=name)), request, placement_body)


class ModelPlacements(ApiView):
    """Where the versions of a model are."""

    def get(self, request: Request, name: str) -> Response:
        rows = deployment_list(model=model_get(name=name))
        return page_list([placement_of(deployment=row) for row in rows], request, placement_body)


class VersionDeploy(ApiView):
    """Load a version on a runtime, beside those already there.

    With ?validate_only=true nothing is loaded: the answer says that it could be, or why not.
    """

    write_action = Action.DEPLOY

    def post(self, request: Request, name: str, number: int) -> Response:
        body = _known_fields(request, {"runtime", "traffic", "allow_unsplit"})
        traffic = _text(body, "traffic")
        if traffic not in ("", services.ALL):
            raise _wrong("traffic", 'Leave it out, or send "all".')
        version = version_get(name=name, number=number)
        runtime, allow_unsplit = _runtime_in(body), _flag(body, "allow_unsplit")
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
    """Unload a version. Requests in flight are answered first. `validate_only` as for deploy."""

    write_action = Action.DEPLOY

    def post(self, request: Request, name: str, number: int) -> Response:
        body = _known_fields(request, {"runtime", "out_of_service"})
        version = version_get(name=name, number=number)
        runtime, out_of_service = _runtime_in(body), _flag(body, "out_of_service")
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
    """The serving settings of a model, and the config.pbtxt they make."""

    write_action = Action.DEPLOY

    def get(self, request: Request, name: str) -> Response:
        model = model_get(name=name)
        return _with_config_tag(model, serving_config_body(model))

    def put(self, request: Request, name: str) -> Response:
        """Replaces the settings: one left out gets its default. `validate_only` shows the config only."""
        model = model_get(name=name)
        body = body_of(request)
        values = body["settings"] if isinstance(body.get("settings"), dict) else body
        if validate_only(request):
            return Response(_preview_body(model, values))
        row = serving_config_row(model=model)
        check_if_match(request, serving_config_tag(row, model))
        job = services.serving_config_set(
            model=model,
            values=values,
            actor=actor_of(request),
            expected_revision=row.revision if row is not None else 0,
        )
        return operation_response(job)


def _asked_or_tried(request: Request, ask: Callable[[], Job]) -> Response:
    """The operation; for a dry run what it would be, with every row of it undone."""
    if not validate_only(request):
        return operation_response(ask())
    with transaction.atomic():
        job = ask()
        body = {"kind": job.kind, "target": job.target, "parameters": job.parameters}
        transaction.set_rollback(True)
    return Response(body)


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


def _with_config_tag(model: InferenceModel, body: dict[str, Any]) -> Response:
    tag = etag_of(serving_config_tag(serving_config_row(model=model), model))
    return Response(body, headers={"ETag": tag})


def _tag(runtime: Runtime) -> str:
    return etag_of(runtime_tag(runtime))


def _runtime_in(body: dict[str, Any]) -> Runtime | None:
    name = _text(body, "runtime")
    return runtime_get(name=name) if name else None


def _known_fields(request: Request, known: set[str]) -> dict[str, Any]:
    body = body_of(request)
    for name in body:
        if name not in known:
            raise _wrong(name, f"There is no such field; fields are {', '.join(sorted(known))}.")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise _wrong(name, "Text is expected.")
    return value


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, "true or false is expected.")
    return value


def _wrong(name: str, detail: str) -> InvalidInput:
    return InvalidInput(
        f"{name}: {detail}",
        reason="VALIDATION_FAILED",
        errors=[{"pointer": f"/{name}", "detail": detail, "code": "invalid"}],
    )
