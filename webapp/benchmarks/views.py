"""Pages: benchmark runs, and one run with its curve."""

import json

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from webapp.accounts.permissions import Action, actor_of, requires, user_allows
from webapp.benchmarks.choices import OPEN_STATES
from webapp.benchmarks.curve import latency_throughput_figure
from webapp.benchmarks.forms import BenchmarkForm
from webapp.benchmarks.models import BenchmarkRun
from webapp.benchmarks.selectors import (
    point_list,
    run_get,
    run_list,
    runs_beside,
    saturation_of,
    versions_in_service,
)
from webapp.benchmarks.services import benchmark_plan, benchmark_request
from webapp.catalog.selectors import version_get
from webapp.core.errors import ControlPlaneError
from webapp.jobs.selectors import job_get
from webapp.jobs.services import job_cancel

_PAGE_SIZE = 25


@requires(Action.VIEW)
def benchmark_list(request: HttpRequest) -> HttpResponseBase:
    return _list_page(request, _form(request, None))


@require_POST
@requires(Action.BENCHMARK)
def benchmark_start(request: HttpRequest) -> HttpResponseBase:
    form = _form(request, request.POST)
    if not form.is_valid():
        return _list_page(request, form, status=400)
    name, number = form.cleaned_data["version"]
    try:
        run, _job = benchmark_request(
            version=version_get(name=name, number=number),
            protocol=form.cleaned_data["protocol"],
            plan=benchmark_plan(values=form.cleaned_data),
            inputs=form.cleaned_data["inputs"],
            actor=actor_of(request),
        )
    except ControlPlaneError as error:
        form.add_error(None, " ".join(filter(None, [error.detail, error.help_text])))
        return _list_page(request, form, status=error.status)
    return redirect("benchmarks:detail", run.id)


@requires(Action.VIEW)
def benchmark_detail(request: HttpRequest, run_id: str) -> HttpResponseBase:
    run = run_get(run_id=run_id)
    others = runs_beside(run=run)
    beside = next((other for other in others if other.id == request.GET.get("beside")), None)
    context = {
        **_run_context(request, run),
        "others": others,
        "beside": beside,
        "figure": latency_throughput_figure(
            [(r, point_list(run=r)) for r in (run, beside) if r is not None]
        ),
    }
    page = (
        "benchmarks/_live.html" if request.headers.get("HX-Request") else "benchmarks/detail.html"
    )
    return render(request, page, context)


@require_POST
@requires(Action.BENCHMARK)
def benchmark_cancel(request: HttpRequest, run_id: str) -> HttpResponseBase:
    run = run_get(run_id=run_id)
    try:
        job_cancel(job=job_get(job_id=run.job_id), actor=actor_of(request))
    except ControlPlaneError as error:
        messages.error(request, error.detail)
    return redirect("benchmarks:detail", run.id)


def _run_context(request: HttpRequest, run: BenchmarkRun) -> dict[str, object]:
    points = point_list(run=run)
    running = run.state in OPEN_STATES
    return {
        "run": run,
        "points": points,
        "saturation": saturation_of(points=points),
        "running": running,
        "job": job_get(job_id=run.job_id) if run.job_id else None,
        "may_run": user_allows(request.user, Action.BENCHMARK),
        "client_bound": [p.concurrency for p in points if p.client_cpu_percent > 90],
    }


def _form(request: HttpRequest, data: object) -> BenchmarkForm:
    versions = [
        (f"{version.model.name}/{version.number}", str(version))
        for version in versions_in_service()
    ]
    wanted = f"{request.GET.get('model', '')}/{request.GET.get('version', '')}"
    initial = {"version": wanted} if wanted in dict(versions) else {}
    return BenchmarkForm(data, versions=versions, initial=initial)


def _script(request: HttpRequest) -> str:
    """The call that measures a version in service, ready to paste; empty when none is in service."""
    version = versions_in_service().first()
    if version is None:
        return ""
    asked = {"model": version.model.name, "version": version.number, "protocol": "grpc"}
    address = request.build_absolute_uri("/api/v1/benchmarks")
    return (
        'curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" '
        f"-d '{json.dumps(asked)}' {address}"
    )


def _list_page(request: HttpRequest, form: BenchmarkForm, *, status: int = 200) -> HttpResponseBase:
    runs = Paginator(run_list(), _PAGE_SIZE).get_page(request.GET.get("page"))
    rows = [
        (
            run,
            points,
            saturation_of(points=points),
            max((p.throughput for p in points), default=None),
        )
        for run in runs
        for points in [point_list(run=run)]
    ]
    context = {
        "page": runs,
        "rows": rows,
        "form": form,
        "can_start": bool(form.fields["version"].choices),  # type: ignore[attr-defined]
        "may_run": user_allows(request.user, Action.BENCHMARK),
        "script": _script(request),
    }
    return render(request, "benchmarks/list.html", context, status=status)
