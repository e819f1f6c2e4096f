"""Pages: all background work, and one piece of it followed live."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from webapp.accounts.permissions import Action, actor_of, refusal, requires, user_allows
from webapp.core.errors import ControlPlaneError
from webapp.core.targets import page_of
from webapp.jobs.choices import OPEN_STATES, JobKind, JobState
from webapp.jobs.selectors import job_get, job_list, jobs_open
from webapp.jobs.services import job_cancel

_PAGE_SIZE = 50


@requires(Action.VIEW)
def jobs_page(request: HttpRequest) -> HttpResponseBase:
    state = request.GET.get("state", "")
    kind = request.GET.get("kind", "")
    rows = job_list(
        state=state if state in JobState.values else None,
        kind=kind if kind in JobKind.values else None,
    )
    counts = dict(jobs_open().values_list("state").annotate(Count("id")))
    context = {
        "page": Paginator(rows, _PAGE_SIZE).get_page(request.GET.get("page")),
        "running": counts.get(JobState.RUNNING, 0),
        "pending": counts.get(JobState.PENDING, 0),
        "states": JobState.values,
        "kinds": JobKind.choices,
        "state": state,
        "kind": kind,
    }
    template = "jobs/_table.html" if request.headers.get("HX-Request") else "jobs/list.html"
    return render(request, template, context)


@requires(Action.VIEW)
def job_page(request: HttpRequest, job_id: str) -> HttpResponseBase:
    job = job_get(job_id=job_id)
    user = actor_of(request)
    context = {
        "job": job,
        "open": job.state in OPEN_STATES,
        "target_url": page_of(job.target),
        "why_not": "" if user_allows(user, Action.CANCEL_JOBS) else refusal(Action.CANCEL_JOBS),
    }
    template = "jobs/_job.html" if request.headers.get("HX-Request") else "jobs/detail.html"
    return render(request, template, context)


@require_POST
@requires(Action.CANCEL_JOBS)
def job_cancel_page(request: HttpRequest, job_id: str) -> HttpResponseBase:
    try:
        job = job_cancel(job=job_get(job_id=job_id), actor=actor_of(request))
    except ControlPlaneError as error:
        messages.error(request, error.detail)
    else:
        ended = job.state == JobState.CANCELLED
        messages.success(
            request,
            "Cancelled." if ended else "Asked to stop; it ends at its next safe place.",
        )
    return redirect("jobs:detail", job_id=job_id)
