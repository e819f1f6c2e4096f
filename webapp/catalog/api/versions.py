"""`/models/{name}/versions`: list, one-shot upload, read, note, archive, restore, check again."""

from typing import Any

from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.api.dry_run import tried
from webapp.catalog.selectors import model_get, version_get, version_list
from webapp.catalog.serializers import version_body
from webapp.catalog.services import (
    version_archive,
    version_create,
    version_recheck,
    version_restore,
    version_update,
)
from webapp.core.api import (
    ApiView,
    body_of,
    check_if_match,
    etag_response,
    filtered,
    operation_response,
    page,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.jobs.models import Job
from webapp.uploads.fields import text_field
from webapp.uploads.forms import details_of, files_of
from webapp.uploads.services import upload_receive


class VersionList(ApiView):
    write_action = Action.MANAGE_MODELS
    parser_classes = [MultiPartParser]

    def get(self, request: Request, name: str) -> Response:
        """Newest first; `?filter=state=READY` keeps one state."""
        rows = version_list(model=model_get(name=name))
        rows = filtered(rows, request, {"state": "state", "number": "number"})
        return page(rows, request, version_body)

    def post(self, request: Request, name: str) -> Response:
        """One-shot upload: multipart `file=`, optionally `config=`, `samples=`, `sha256=`, `note=`."""
        model = model_get(name=name)
        actor = actor_of(request)
        file, samples = files_of(request.FILES)
        upload = upload_receive(
            model_name=model.name,
            file=file,
            samples=samples,
            actor=actor,
            details=details_of(body_of(request), request.FILES),
        )
        version, job = version_create(model=model, upload=upload, actor=actor)
        return operation_response(job, extra={"version": version.number})


class VersionDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    def get(self, request: Request, name: str, number: int) -> Response:
        version = version_get(name=name, number=number)
        return etag_response(request, version, version_body(version))

    def patch(self, request: Request, name: str, number: int) -> Response:
        """Only the note can change; everything else of a version never does."""
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        body = body_of(request)
        if set(body) - {"note"}:
            raise InvalidInput(
                f"{sorted(set(body) - {'note'})[0]} of a version cannot be changed; only its note can.",
                reason="VERSION_IMMUTABLE",
                help_text="Upload a new version instead.",
            )
        note, actor = text_field(body, "note"), actor_of(request)
        if validate_only(request):
            return tried(
                lambda: version_body(version_update(version=version, note=note, actor=actor))
            )
        version_update(version=version, note=note, actor=actor)
        return etag_response(request, version, version_body(version))


class VersionArchive(ApiView):
    write_action = Action.MANAGE_MODELS

    def post(self, request: Request, name: str, number: int) -> Response:
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        actor = actor_of(request)
        if validate_only(request):
            return tried(lambda: version_body(version_archive(version=version, actor=actor)))
        version_archive(version=version, actor=actor)
        return etag_response(request, version, version_body(version))


class VersionRestore(ApiView):
    write_action = Action.MANAGE_MODELS

    def post(self, request: Request, name: str, number: int) -> Response:
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        actor = actor_of(request)
        if validate_only(request):
            return tried(lambda: version_body(version_restore(version=version, actor=actor)))
        version_restore(version=version, actor=actor)
        return etag_response(request, version, version_body(version))


class VersionValidate(ApiView):
    write_action = Action.MANAGE_MODELS

    def post(self, request: Request, name: str, number: int) -> Response:
        """Runs all checks again on the published files."""
        version, actor = version_get(name=name, number=number), actor_of(request)
        if validate_only(request):
            return tried(lambda: _asked(version_recheck(version=version, actor=actor)))
        return operation_response(version_recheck(version=version, actor=actor))


def _asked(job: Job) -> dict[str, Any]:
    return {"kind": job.kind, "target": job.target}
