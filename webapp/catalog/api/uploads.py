"""Completing an upload: the bytes become a version."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog import schema
from webapp.catalog.services import upload_complete
from webapp.core.api import ApiView, body_of, call, operation_response
from webapp.uploads.fields import text_field
from webapp.uploads.schema import UPLOAD_COMPLETE
from webapp.uploads.selectors import upload_get


class UploadComplete(ApiView):
    write_action = Action.MANAGE_MODELS

    @call(
        "completeUpload",
        schema.VERSION_OPERATION,
        status=202,
        body=UPLOAD_COMPLETE,
        example={"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
    )
    def post(self, request: Request, upload_id: str) -> Response:
        """Make a version of the parts.

        Repeating the call gives the same answer. The operation checks the file in a sandbox.
        """
        actor = actor_of(request)
        version, job = upload_complete(
            upload=upload_get(upload_id=upload_id, actor=actor),
            sha256=text_field(body_of(request), "sha256"),
            actor=actor,
        )
        return operation_response(job, extra={"version": version.number})
