"""Pages: the fleet of runtimes, one runtime, and how a model is served."""

from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.permissions import (
    Action,
    actor_of,
    refusal,
    require,
    requires,
    user_allows,
)
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get, version_get
from webapp.core.errors import ControlPlaneError, InvalidInput, PreconditionFailed
from webapp.serving import services
from webapp.serving.forms import AddressForm, RuntimeForm, ServingConfigForm
from webapp.serving.models import Runtime
from webapp.serving.pages import config_context, fleet_context, preview_context, runtime_context
from webapp.serving.selectors import runtime_get, serving_config_row, values_asked

_UNREACHABLE = "RUNTIME_UNREACHABLE"
_SECOND_BUTTON = (
    "Check the addresses and that the server runs; or use the second button, "
    "and it is used as soon as it answers."
)


# -- the fleet ----------------------------------------------------------------------------------
@require_http_methods(["GET", "POST"])
@requires(Action.VIEW)
def runtimes_page(request: HttpRequest) -> HttpResponseBase:
    if request.method == "POST":
        return _add_runtime(request)
    if request.headers.get("HX-Request"):
        return render(request, "serving/_runtimes.html", fleet_context())
    return _fleet(request, RuntimeForm())


def _add_runtime(request: HttpRequest) -> HttpResponseBase:
    require(actor=actor_of(request), action=Action.MANAGE_RUNTIMES)
    form = RuntimeForm(request.POST)
    if not form.is_valid():
        return _fleet(request, form, adding=True)
    try:
        runtime = services.runtime_register(
            name=form.cleaned_data["name"],
            addresses=form.addresses(),
            actor=actor_of(request),
            save_anyway="save_anyway" in request.POST,
        )
    except ControlPlaneError as error:
        _explain(form, error)
        unreachable = error.reason == _UNREACHABLE
        return _fleet(request, form, adding=True, unreachable=unreachable)
    messages.success(request, f"Runtime {runtime.name} is registered.")
    return redirect("serving:runtime", name=runtime.name)


def _fleet(request: HttpRequest, form: RuntimeForm, **more: Any) -> HttpResponseBase:
    context = fleet_context() | {"form": form} | _may(request, Action.MANAGE_RUNTIMES) | more
    return render(request, "serving/runtimes.html", context, status=422 if form.errors else 200)


# -- one runtime --------------------------------------------------------------------------------
@require_GET
@requires(Action.VIEW)
def runtime_page(request: HttpRequest, name: str) -> HttpResponseBase:
    return _runtime(request, runtime_get(name=name))


def _runtime(
    request: HttpRequest, runtime: Runtime, form: AddressForm | None = None, **more: Any
) -> HttpResponseBase:
    initial = {
        "http_address": runtime.http_address,
        "grpc_address": runtime.grpc_address,
        "metrics_address": runtime.metrics_address,
    }
    context = runtime_context(runtime) | _may(request, Action.DEPLOY) | more
    context |= {
        "form": form or AddressForm(initial=initial),
        "why_not_manage": _why_not(request, Action.MANAGE_RUNTIMES),
    }
    partial = request.headers.get("HX-Request")
    template = "serving/_runtime.html" if partial else "serving/runtime.html"
    failed = form is not None and bool(form.errors)
    return render(request, template, context, status=422 if failed else 200)


@require_POST
@requires(Action.MANAGE_RUNTIMES)
def runtime_change(request: HttpRequest, name: str) -> HttpResponseBase:
    runtime = runtime_get(name=name)
    form = AddressForm(request.POST)
    if not form.is_valid():
        return _runtime(request, runtime, form, changing=True)
    try:
        services.runtime_update(
            runtime=runtime,
            addresses=form.addresses(),
            actor=actor_of(request),
            save_anyway="save_anyway" in request.POST,
        )
    except ControlPlaneError as error:
        _explain(form, error)
        unreachable = error.reason == _UNREACHABLE
        return _runtime(request, runtime, form, changing=True, unreachable=unreachable)
    messages.success(request, "The addresses are saved.")
    return redirect("serving:runtime", name=name)


@require_POST
@requires(Action.MANAGE_RUNTIMES)
def runtime_forget(request: HttpRequest, name: str) -> HttpResponseBase:
    try:
        services.runtime_remove(runtime=runtime_get(name=name), actor=actor_of(request))
    except ControlPlaneError as error:
        messages.error(request, f"{error.detail} {error.help_text}")
        return redirect("serving:runtime", name=name)
    messages.success(request, f"Runtime {name} is removed. It goes on serving what it has.")
    return redirect("serving:runtimes")


@require_POST
@requires(Action.DEPLOY)
def runtime_probe(request: HttpRequest, name: str) -> HttpResponseBase:
    services.runtime_probe(runtime=runtime_get(name=name))
    return redirect("serving:runtime", name=name)


@require_POST
@requires(Action.DEPLOY)
def runtime_reconcile(request: HttpRequest, name: str) -> HttpResponseBase:
    job = services.reconcile_request(runtime=runtime_get(name=name), actor=actor_of(request))
    return redirect("jobs:detail", job_id=job.id)


@require_POST
@requires(Action.DEPLOY)
def runtime_deploy(request: HttpRequest, name: str) -> HttpResponseBase:
    runtime = runtime_get(name=name)
    model, _, number = request.POST.get("version", "").rpartition("/")
    if not (number.isascii() and number.isdigit()):
        messages.error(request, "Choose a version to deploy.")
        return redirect("serving:runtime", name=name)
    try:
        job = services.deployment_request(
            version=version_get(name=model, number=int(number)),
            runtime=runtime,
            actor=actor_of(request),
            allow_unsplit="allow_unsplit" in request.POST,
        )
    except ControlPlaneError as error:
        messages.error(request, f"{error.detail} {error.help_text}")
        return redirect("serving:runtime", name=name)
    return redirect("jobs:detail", job_id=job.id)


@require_POST
@requires(Action.DEPLOY)
def runtime_undeploy(request: HttpRequest, name: str, model: str, number: int) -> HttpResponseBase:
    try:
        job = services.deployment_remove(
            version=version_get(name=model, number=number),
            runtime=runtime_get(name=name),
            actor=actor_of(request),
            out_of_service="out_of_service" in request.POST,
        )
    except ControlPlaneError as error:
        messages.error(request, f"{error.detail} {error.help_text}")
        return redirect("serving:runtime", name=name)
    return redirect("jobs:detail", job_id=job.id)


# -- how a model is served ----------------------------------------------------------------------
@require_http_methods(["GET", "POST"])
@requires(Action.VIEW)
def config_page(request: HttpRequest, name: str) -> HttpResponseBase:
    model = model_get(name=name)
    if request.method == "POST":
        return _save_config(request, model)
    row = serving_config_row(model=model)
    initial = ServingConfigForm.initial_of(
        values_asked(model=model), row.revision if row is not None else 0
    )
    form = ServingConfigForm(initial=initial)
    return _config(request, model, form, initial=initial)


def _save_config(request: HttpRequest, model: InferenceModel) -> HttpResponseBase:
    form = ServingConfigForm(request.POST)
    if "preview" in request.POST:
        return _config(request, model, form)
    require(actor=actor_of(request), action=Action.DEPLOY)
    if not form.is_valid():
        return _config(request, model, form)
    try:
        job = services.serving_config_set(
            model=model,
            values=form.values(),
            actor=actor_of(request),
            expected_revision=form.cleaned_data["revision"],
        )
    except PreconditionFailed:
        row = serving_config_row(model=model)
        data = request.POST.copy()
        data["revision"] = str(row.revision if row is not None else 0)
        return _config(request, model, ServingConfigForm(data), changed_meanwhile=True)
    except ControlPlaneError as error:
        _explain(form, error)
        return _config(request, model, form)
    return redirect("jobs:detail", job_id=job.id)


def _config(
    request: HttpRequest,
    model: InferenceModel,
    form: ServingConfigForm,
    **more: Any,
) -> HttpResponseBase:
    context = config_context(model, form) | _may(request, Action.DEPLOY) | more
    context |= preview_context(model, form)
    changed = more.get("changed_meanwhile")
    status = 412 if changed else 422 if form.errors else 200
    return render(request, "serving/config.html", context, status=status)


@require_POST
@requires(Action.VIEW)
def config_preview(request: HttpRequest, name: str) -> HttpResponseBase:
    """What the form would give, as it is typed."""
    model = model_get(name=name)
    form = ServingConfigForm(request.POST)
    form.is_valid()
    return render(request, "serving/_preview.html", preview_context(model, form))


# -- shared -------------------------------------------------------------------------------------
def _may(request: HttpRequest, action: Action) -> dict[str, Any]:
    return {"why_not": _why_not(request, action)}


def _why_not(request: HttpRequest, action: Action) -> str:
    return "" if user_allows(actor_of(request), action) else refusal(action)


def _explain(form: Form, error: ControlPlaneError) -> None:
    """Each sentence at its field; what belongs to none on top."""
    placed = False
    if isinstance(error, InvalidInput) or error.errors:
        for one in error.errors:
            field = str(one["pointer"]).strip("/")
            if field in form.fields:
                form.add_error(field, one["detail"])
                placed = True
    if not placed:
        fix = _SECOND_BUTTON if error.reason == _UNREACHABLE else error.help_text
        form.add_error(None, f"{error.detail} {fix}".strip())
