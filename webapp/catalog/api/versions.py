"""`/models/{name}/versions`: list, one-shot upload, read, note, archive, restore, check again."""

from collections.abc import Callable
from typing import Any

from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog import schema
from webapp.catalog.models import ModelVersion
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
    IfMatch,
    body_of,
    call,
    check_if_match,
    etag_response,
    filtered,
    operation_response,
    page,
    tried,
    validate_only,
)
from webapp.core.contract import FORM
from webapp.core.json_schema import NO_FIELDS
from webapp.jobs.models import Job
from webapp.jobs.schema import OPERATION
from webapp.uploads.fields import text_field
from webapp.uploads.forms import details_of, files_of
from webapp.uploads.services import upload_receive

_FILTERS = {"state": "state", "number": "number"}


class VersionList(ApiView):
    write_action = Action.MANAGE_MODELS
    parser_classes = [MultiPartParser]

    @call(
        "listVersions",
        schema.VERSIONS,
        paged=True,
        filters=_FILTERS,
        query={"state": schema.VERSION_STATE},
    )
    def get(self, request: Request, name: str) -> Response:
        """List the versions of a model, newest first."""
        rows = version_list(model=model_get(name=name))
        return page(filtered(rows, request, _FILTERS), request, version_body)

    @call(
        "uploadVersion",
        schema.VERSION_OPERATION,
        status=202,
        body=schema.VERSION_UPLOAD,
        media_type=FORM,
    )
    def post(self, request: Request, name: str) -> Response:
        """Upload a version in one request.

        The operation checks the file in a sandbox: a dry run would do just that, so there is none.
        """
        model = model_get(name=name)
        actor = actor_of(request)
        fields = body_of(request)
        file, samples = files_of(request.FILES)
        upload = upload_receive(
            model_name=model.name,
            file=file,
            samples=samples,
            actor=actor,
            details=details_of(fields, request.FILES),
        )
        version, job = version_create(model=model, upload=upload, actor=actor)
        return operation_response(job, extra={"version": version.number})


class VersionDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("getVersion", schema.VERSION, tagged=True, revalidated=True)
    def get(self, request: Request, name: str, number: int) -> Response:
        """Read a version: state, checks, inputs and outputs, files, digests."""
        version = version_get(name=name, number=number)
        return etag_response(request, version, version_body(version))

    @call(
        "changeVersion",
        schema.VERSION,
        body=schema.VERSION_CHANGE,
        dry_run=schema.VERSION,
        if_match=IfMatch.NEEDED,
        tagged=True,
        refusal="VERSION_IMMUTABLE",
        refusal_help="Only the note of a version can be changed; upload a new version instead.",
        example={"note": "the one with the new tokeniser"},
    )
    def patch(self, request: Request, name: str, number: int) -> Response:
        """Change the note of a version; everything else of it never changes."""
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        note, actor = text_field(body_of(request), "note"), actor_of(request)
        return _changed(request, lambda: version_update(version=version, note=note, actor=actor))


class VersionArchive(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "archiveVersion",
        schema.VERSION,
        body=NO_FIELDS,
        dry_run=schema.VERSION,
        if_match=IfMatch.TAKEN,
        tagged=True,
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        """Take a version out of sight; its files stay, so that it can come back."""
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        actor = actor_of(request)
        return _changed(request, lambda: version_archive(version=version, actor=actor))


class VersionRestore(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "restoreVersion",
        schema.VERSION,
        body=NO_FIELDS,
        dry_run=schema.VERSION,
        if_match=IfMatch.TAKEN,
        tagged=True,
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        """Bring an archived version back."""
        version = version_get(name=name, number=number)
        check_if_match(request, version)
        actor = actor_of(request)
        return _changed(request, lambda: version_restore(version=version, actor=actor))


class VersionValidate(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "validateVersion",
        OPERATION,
        status=202,
        body=NO_FIELDS,
        dry_run=schema.ASKED,
        if_match=IfMatch.TAKEN,
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        """Run all checks again on the published files."""
        version, actor = version_get(name=name, number=number), actor_of(request)
        check_if_match(request, version)
        if validate_only(request):
            return tried(lambda: _asked(version_recheck(version=version, actor=actor)))
        return operation_response(version_recheck(version=version, actor=actor))


def _changed(request: Request, change: Callable[[], ModelVersion]) -> Response:
    """The version as it is after a change; for a dry run as it would be, with every row undone."""
    if validate_only(request):
        return tried(lambda: version_body(change()))
    version = change()
    return etag_response(request, version, version_body(version))


def _asked(job: Job) -> dict[str, Any]:
    return {"kind": job.kind, "target": job.target}
