"""Pages: all rollouts, one rollout watched live, and the form that starts one."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.permissions import Action, actor_of, refusal, requires, user_allows
from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel
from webapp.catalog.selectors import model_get, version_get, version_list
from webapp.core.errors import ControlPlaneError
from webapp.rollouts import services
from webapp.rollouts.pages import detail_context, list_rows
from webapp.rollouts.sample_size import requests_to_detect
from webapp.rollouts.selectors import (
    rollout_active,
    rollout_get,
    rollout_list,
    rollouts_active,
    stable_version,
)
from webapp.rollouts.serializers import (
    intent_body,
    options_of,
    plan_from_body,
    version_number,
)
from webapp.rollouts.start_form import (
    PRESETS,
    Typed,
    api_body,
    fresh_form,
    said_plainly,
    typed_form,
)
from webapp.rollouts.state_machine import TERMINAL_STATES, Move
from webapp.telemetry.selectors import rate_now

_PAGE_SIZE = 25
_ACTIONS = {
    Move.PAUSE: services.rollout_pause,
    Move.RESUME: services.rollout_resume,
    Move.ADVANCE: services.rollout_advance,
    Move.PROMOTE: services.rollout_promote,
    Move.ABORT: services.rollout_abort,
}


@require_GET
@requires(Action.VIEW)
def list_page(request: HttpRequest) -> HttpResponseBase:
    model = request.GET.get("model", "")
    active = rollouts_active()
    ended = rollout_list().filter(state__in=TERMINAL_STATES)
    if model:
        active, ended = active.filter(model__name=model), ended.filter(model__name=model)
    page = Paginator(ended, _PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "active": list_rows(list(active)),
        "ended": list_rows(list(page)),
        "page": page,
        "model": model,
        "example": _example(request, model),
    }
    template = "rollouts/_list.html" if request.headers.get("HX-Request") else "rollouts/list.html"
    return render(request, template, context)


def _example(request: HttpRequest, model: str) -> str:
    """Ready to copy, with an address and a model that exist here."""
    name = model or InferenceModel.objects.values_list("name", flat=True).first() or "resnet50"
    url = request.build_absolute_uri(f"/api/v1/models/{name}/rollouts")
    return (
        f"curl -X POST {url} -H 'Authorization: Bearer TOKEN' "
        "-H 'Content-Type: application/json' -d '{\"version\": 2}'"
    )


@require_GET
@requires(Action.VIEW)
def detail_page(request: HttpRequest, rollout_id: str, name: str | None = None) -> HttpResponseBase:
    """`?fragment` is the same without the frame of the page: what rollout.js swaps in."""
    rollout = rollout_get(rollout_id=rollout_id, model_name=name)
    context = detail_context(rollout=rollout, user=actor_of(request))
    fragment = "fragment" in request.GET
    return render(request, "rollouts/_live.html" if fragment else "rollouts/detail.html", context)


@require_POST
@requires(Action.ROLLOUT)
def action_page(request: HttpRequest, rollout_id: str, verb: str) -> HttpResponseBase:
    """One click. A button of a page that is behind the rollout does nothing but say so."""
    rollout = rollout_get(rollout_id=rollout_id)
    move = Move(verb)
    if move is not Move.ABORT and request.POST.get("row_version") != str(rollout.row_version):
        messages.warning(
            request, "The rollout had moved on before your click; nothing was changed. Look again."
        )
        return redirect("rollouts:detail", rollout_id=rollout.id)
    try:
        rollout = _ACTIONS[move](rollout=rollout, actor=actor_of(request))
    except ControlPlaneError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, rollout.reason)
    return redirect("rollouts:detail", rollout_id=rollout.id)


# -- starting -------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
@requires(Action.VIEW)
def start_page(request: HttpRequest, name: str) -> HttpResponseBase:
    model = model_get(name=name)
    if request.method == "POST":
        return _start(request, model)
    typed = fresh_form(
        version=request.GET.get("version") or _newest(model),
        preset=request.GET.get("preset", ""),
    )
    return render(request, "rollouts/start.html", _start_context(request, model, typed))


@require_GET
@requires(Action.VIEW)
def preview_fragment(request: HttpRequest, name: str) -> HttpResponseBase:
    """What the form would do, as it stands."""
    model = model_get(name=name)
    return render(
        request, "rollouts/_plan.html", _plan_context(request, model, typed_form(request.GET))
    )


@requires(Action.ROLLOUT)
def _start(request: HttpRequest, model: InferenceModel) -> HttpResponseBase:
    typed = typed_form(request.POST)
    try:
        body = api_body(typed)
        canary = version_get(name=model.name, number=version_number(body))
        rollout = services.rollout_start(
            model=model,
            canary=canary,
            plan=plan_from_body(body),
            actor=actor_of(request),
            options=options_of(body),
        )
    except ControlPlaneError as error:
        context = _start_context(request, model, typed) | _problem(error)
        return render(request, "rollouts/start.html", context, status=422)
    messages.success(request, f"Rollout of version {rollout.canary.number} started.")
    return redirect("rollouts:detail", rollout_id=rollout.id)


def _newest(model: InferenceModel) -> str:
    stable = stable_version(model=model)
    rows = version_list(model=model).filter(state=VersionState.READY)
    if stable is not None:
        rows = rows.exclude(pk=stable.pk)
    newest = rows.first()
    return str(newest.number) if newest is not None else ""


def _start_context(request: HttpRequest, model: InferenceModel, typed: Typed) -> dict[str, Any]:
    stable = stable_version(model=model)
    ready = version_list(model=model).filter(state=VersionState.READY)
    versions = [row for row in ready if stable is None or row.pk != stable.pk]
    return {
        "model": model,
        "stable": stable,
        "versions": versions,
        "typed": typed,
        "presets": PRESETS.values(),
        "active": rollout_active(model=model),
        **_plan_context(request, model, typed),
    }


def _plan_context(request: HttpRequest, model: InferenceModel, typed: Typed) -> dict[str, Any]:
    rate = rate_now(model=model.name)
    context: dict[str, Any] = {
        "model": model,
        "rate": rate,
        "why_not": _why_not(request),
        "detect": {
            "from_half_percent": requests_to_detect(0.005, 0.03),
            "from_tenth_percent": requests_to_detect(0.001, 0.01),
        },
    }
    try:
        body = api_body(typed)
        plan, options = plan_from_body(body), options_of(body)
        canary = version_get(name=model.name, number=version_number(body))
        intent = services.rollout_intent(model=model, canary=canary, plan=plan, options=options)
    except ControlPlaneError as error:
        return context | _problem(error)
    return context | {"plan": intent_body(intent, rate=rate)}


def _why_not(request: HttpRequest) -> str:
    return "" if user_allows(actor_of(request), Action.ROLLOUT) else refusal(Action.ROLLOUT)


def _problem(error: ControlPlaneError) -> dict[str, Any]:
    said = said_plainly(error.errors) if error.errors else [error.detail]
    return {"problems": said, "problem_fix": error.help_text, "problem_reason": error.reason}
