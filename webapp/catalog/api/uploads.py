"""Completing an upload: the bytes become a version."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.services import upload_complete
from webapp.core.api import ApiView, body_of, operation_response
from webapp.uploads.fields import text_field
from webapp.uploads.selectors import upload_get


class UploadComplete(ApiView):
    has_dry_run = False
    write_action = Action.MANAGE_MODELS

    def post(self, request: Request, upload_id: str) -> Response:
        """`{"sha256": "…"}` of the whole file is recommended. Repeating the call gives the same answer."""
        actor = actor_of(request)
        version, job = upload_complete(
            upload=upload_get(upload_id=upload_id, actor=actor),
            sha256=text_field(body_of(request), "sha256"),
            actor=actor,
        )
        return operation_response(job, extra={"version": version.number})
