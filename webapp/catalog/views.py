"""The upload page, and the list of checks that fills in live on it and on a version's page."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, actor_of, requires
from webapp.catalog.choices import UNDECIDED_STATES
from webapp.catalog.inspection.names import CHECKS
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.selectors import check_rows, version_get
from webapp.catalog.services import model_register, upload_complete, version_create
from webapp.core.errors import ControlPlaneError
from webapp.uploads.choices import UploadState
from webapp.uploads.forms import details_of, files_of
from webapp.uploads.selectors import upload_get, uploads_of
from webapp.uploads.serializers import upload_body
from webapp.uploads.services import upload_abort, upload_receive

_SUGGESTED_NAMES = 200
_STOP_POLLING = 286  # htmx's own: the answer is shown and not asked for again


@require_http_methods(["GET", "POST"])
@requires(Action.MANAGE_MODELS)
def upload_page(request: HttpRequest) -> HttpResponseBase:
    """With JavaScript the page sends parts through the API; without, the form arrives here whole."""
    if request.method == "GET":
        return render(request, "catalog/upload.html", _context(request))
    try:
        version = _receive(request)
    except ControlPlaneError as problem:
        context = _context(request) | {"problem": problem}
        return render(request, "catalog/upload.html", context, status=problem.status)
    return redirect("dashboard:version", name=version.model.name, number=version.number)


@require_POST
@requires(Action.MANAGE_MODELS)
def upload_finish(request: HttpRequest, upload_id: str) -> HttpResponseBase:
    """All parts are there and nobody said so yet: the page was closed at the last moment."""
    actor = actor_of(request)
    upload = upload_get(upload_id=upload_id, actor=actor)
    version, _ = upload_complete(upload=upload, actor=actor)
    return redirect("dashboard:version", name=version.model.name, number=version.number)


@require_POST
@requires(Action.MANAGE_MODELS)
def upload_discard(request: HttpRequest, upload_id: str) -> HttpResponseBase:
    actor = actor_of(request)
    upload = upload_abort(upload=upload_get(upload_id=upload_id, actor=actor), actor=actor)
    messages.success(request, f"Discarded the unfinished upload of {upload.file_name}.")
    return redirect("catalog:upload")


@require_GET
@requires(Action.VIEW)
def version_checks(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    """The list alone. With `?outcome=1` also what to do next, for the upload page."""
    version = version_get(name=name, number=number)
    context = {"version": version, "checks": check_rows(version=version)}
    decided = version.state not in UNDECIDED_STATES
    template = "catalog/_outcome.html" if "outcome" in request.GET else "catalog/_check_rows.html"
    return render(request, template, context, status=_STOP_POLLING if decided else 200)


def _receive(request: HttpRequest) -> ModelVersion:
    actor = actor_of(request)
    file, samples = files_of(request.FILES)
    name = request.POST.get("model", "").strip()
    upload = upload_receive(
        model_name=name,
        file=file,
        samples=samples,
        actor=actor,
        details=details_of(request.POST, request.FILES),
    )
    model = _model(name, actor)
    version, _ = version_create(model=model, upload=upload, actor=actor)
    return version


def _model(name: str, actor: User) -> InferenceModel:
    known = InferenceModel.objects.filter(name=name).first()
    return known or model_register(name=name, actor=actor)


def _context(request: HttpRequest) -> dict[str, Any]:
    unfinished = uploads_of(owner=actor_of(request), state=UploadState.UPLOADING)[:20]
    return {
        "names": InferenceModel.objects.values_list("name", flat=True)[:_SUGGESTED_NAMES],
        "model_name": request.POST.get("model") or request.GET.get("model", ""),
        "note": request.POST.get("note", ""),
        "unfinished": [
            {**upload_body(upload), "expires": upload.expires_at} for upload in unfinished
        ],
        "check_kinds": CHECKS,
        "limits": {"max_bytes": settings.MAX_UPLOAD_BYTES},
    }
