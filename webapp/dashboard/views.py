"""Pages that gather several apps: overview, models, one model, audit."""

from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from webapp.accounts.permissions import Action, requires, user_allows
from webapp.benchmarks.selectors import run_list
from webapp.catalog.models import ModelVersion
from webapp.catalog.selectors import model_get, promotion_list
from webapp.dashboard.forms import AuditForm
from webapp.dashboard.selectors import (
    audit_filtered,
    model_diagram,
    model_row_list,
    model_rows,
    overview,
    version_rows,
)
from webapp.dashboard.snippets import sample_inputs, snippets
from webapp.rollouts.selectors import rollout_active, rollout_list
from webapp.serving.selectors import embedded_addresses, traffic_state
from webapp.telemetry.boards import Board
from webapp.telemetry.golden import golden_numbers
from webapp.telemetry.selectors import rate_now

_PAGE_SIZE = 25
_AUDIT_SIZE = 50


@requires(Action.VIEW)
def overview_page(request: HttpRequest) -> HttpResponseBase:
    page = (
        "dashboard/_overview.html"
        if request.headers.get("HX-Request")
        else "dashboard/overview.html"
    )
    return render(request, page, {"overview": overview(), **_abilities(request)})


@requires(Action.VIEW)
def models_page(request: HttpRequest) -> HttpResponseBase:
    query = request.GET.get("q", "")
    models = Paginator(model_rows(query=query), _PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "query": query,
        "page": models,
        "rows": model_row_list(models=list(models)),
        **_abilities(request),
    }
    return render(request, "dashboard/models.html", context)


@requires(Action.VIEW)
def model_page(request: HttpRequest, name: str) -> HttpResponseBase:
    model = model_get(name=name)
    rows = version_rows(model=model)
    rate = rate_now(model=name)
    board = Board(kind="model", model=name)
    context = {
        "model": model,
        "rows": rows,
        "diagram": model_diagram(model=model, rate_text=f"{rate:,.3g}/s" if rate else ""),
        "traffic": traffic_state(model=model),
        "board": board,
        "golden": golden_numbers(board),
        "rollout": rollout_active(model=model),
        "rollouts": rollout_list().filter(model=model)[:5],
        "benchmarks": run_list(model=model)[:5],
        "promotions": promotion_list(model=model)[:10],
        "snippets": _snippets(model.name, None, _shown_version(rows)),
        **_abilities(request),
    }
    fragment = request.headers.get("HX-Request") and "track" in request.GET
    return render(
        request, "dashboard/_model_track.html" if fragment else "dashboard/model.html", context
    )


def _shown_version(rows: list) -> ModelVersion | None:  # type: ignore[type-arg]
    """Whose signature the example call has: the one in service, else the newest that is ready."""
    serving = [row.version for row in rows if row.available]
    ready = [row.version for row in rows if row.version.state == "READY"]
    return next(iter(serving + ready), None)


def _snippets(name: str, number: int | None, version: ModelVersion | None) -> list:  # type: ignore[type-arg]
    if version is None:
        return []
    addresses = embedded_addresses()
    return snippets(
        model=name,
        version=number,
        http=addresses["http_address"],
        grpc=addresses["grpc_address"],
        inputs=sample_inputs(version.inputs),
    )


@requires(Action.VIEW_AUDIT)
def audit_page(request: HttpRequest) -> HttpResponseBase:
    form = AuditForm(request.GET or None)
    asked = form.cleaned_data if form.is_valid() else {}
    rows = audit_filtered(
        target=asked.get("target", ""),
        action=asked.get("action", ""),
        actor_name=asked.get("actor", ""),
    )
    events = Paginator(rows, _AUDIT_SIZE).get_page(request.GET.get("page"))
    return render(request, "dashboard/audit.html", {"page": events, "form": form})


def _abilities(request: HttpRequest) -> dict[str, bool]:
    """What the signed-in person may do, so that a page offers nothing that would be refused."""
    user = request.user
    return {
        "may_upload": user_allows(user, Action.MANAGE_MODELS),
        "may_deploy": user_allows(user, Action.DEPLOY),
        "may_roll_out": user_allows(user, Action.ROLLOUT),
        "may_measure": user_allows(user, Action.BENCHMARK),
    }
