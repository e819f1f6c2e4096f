"""Uploads over REST: start, parts, state, abort. Completing one makes a version: see webapp.catalog.api."""

import base64
import binascii
from typing import Any, cast

from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.core.api import ApiView, body_of, call, page, validate_only
from webapp.core.contract import BYTES
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import file, text
from webapp.uploads import schema
from webapp.uploads.choices import UploadState
from webapp.uploads.chunk_store import Readable
from webapp.uploads.fields import optional_whole_field, text_field, whole_field
from webapp.uploads.limits import check_open_uploads
from webapp.uploads.models import Upload
from webapp.uploads.names import name_check
from webapp.uploads.selectors import upload_get, uploads_of
from webapp.uploads.serializers import part_body, upload_body
from webapp.uploads.services import (
    Details,
    digest_check,
    upload_abort,
    upload_check,
    upload_part,
    upload_samples,
    upload_start,
)


class RawBody(BaseParser):
    """Hands the body over as a stream; nothing is read here."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        return stream


class UploadList(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("listUploads", schema.UPLOADS, paged=True, query={"state": schema.UPLOAD_STATE})
    def get(self, request: Request) -> Response:
        """List your uploads, newest first; `?state=UPLOADING` for the unfinished ones."""
        state = request.query_params.get("state")
        if state and state not in UploadState.values:
            raise InvalidInput(
                f"state: expected one of {', '.join(UploadState.values)}, got {state!r}.",
                reason="BAD_PARAMETER",
            )
        return page(uploads_of(owner=actor_of(request), state=state), request, upload_body)

    @call(
        "startUpload",
        schema.UPLOAD,
        status=201,
        body=schema.UPLOAD_NEW,
        dry_run=schema.UPLOAD_PLAN,
        faults=(429,),
        example={"model": "resnet50", "filename": "model.onnx", "size_bytes": 102442450},
    )
    def post(self, request: Request) -> Response:
        """Reserve room for a file and learn which parts to send."""
        body = body_of(request)
        size_bytes = whole_field(body, "size_bytes")
        part_size = optional_whole_field(body, "part_size")
        if validate_only(request):
            name_check(body["model"], field="model")
            digest_check(sha256=text_field(body, "sha256"))
            check_open_uploads(actor_of(request))
            chosen = upload_check(size_bytes=size_bytes, part_size=part_size)
            return Response({"size_bytes": size_bytes, "part_size": chosen})
        upload = upload_start(
            model_name=text_field(body, "model"),
            size_bytes=size_bytes,
            part_size=part_size,
            actor=actor_of(request),
            details=Details(
                file_name=text_field(body, "filename"),
                sha256=text_field(body, "sha256"),
                config_text=text_field(body, "config"),
                note=text_field(body, "note"),
            ),
        )
        location = {"Location": f"/api/v1/uploads/{upload.id}"}
        return Response(upload_body(upload), status=201, headers=location)


class UploadDetail(ApiView):
    write_action = Action.MANAGE_MODELS

    @call("getUpload", schema.UPLOAD)
    def get(self, request: Request, upload_id: str) -> Response:
        """Read which parts are missing: a reload resumes from here."""
        return Response(upload_body(_upload(request, upload_id)))

    @call("abortUpload", None, status=204)
    def delete(self, request: Request, upload_id: str) -> Response:
        """Abort an upload and give its disk space back. Needs no If-Match: uploads are their owner's."""
        upload_abort(upload=_upload(request, upload_id), actor=actor_of(request))
        return Response(status=204)


class PartDetail(ApiView):
    write_action = Action.MANAGE_MODELS
    parser_classes = [RawBody]

    @call(
        "putPart",
        schema.PART,
        body=file("The bytes of the part."),
        media_type=BYTES,
        headers={
            "X-Part-SHA256": text("SHA-256 of these bytes in hexadecimal."),
            "Content-Digest": text("The same as RFC 9530 has it: sha-256=:base64:."),
        },
    )
    def put(self, request: Request, upload_id: str, number: int) -> Response:
        """Send one part: its bytes as the raw body.

        Parts may come in any order and at once. Sending one again is harmless.
        """
        upload = _upload(request, upload_id)
        part = upload_part(
            upload=upload, number=number, source=_stream(request), sha256=_announced_digest(request)
        )
        return Response(part_body(part))


class SamplesDetail(ApiView):
    write_action = Action.MANAGE_MODELS
    parser_classes = [RawBody]

    @call(
        "putSamples",
        schema.UPLOAD,
        body=file("Inputs to try the version on."),
        media_type=BYTES,
        headers={"X-File-Name": text("Its ending tells .json from .npz.", default="samples.json")},
    )
    def put(self, request: Request, upload_id: str) -> Response:
        """Send inputs that the version will be tried on."""
        upload = upload_samples(
            upload=_upload(request, upload_id),
            name=request.headers.get("X-File-Name", "samples.json"),
            source=_stream(request),
        )
        return Response(upload_body(upload))


def _stream(request: Request) -> Readable:
    return cast(Readable, request.data)  # what RawBody gave


def _upload(request: Request, upload_id: str) -> Upload:
    return upload_get(upload_id=upload_id, actor=actor_of(request))


def _announced_digest(request: Request) -> str:
    if given := request.headers.get("X-Part-SHA256"):
        return digest_check(sha256=given)
    for entry in request.headers.get("Content-Digest", "").split(","):
        name, _, value = entry.strip().partition("=")
        if name.lower() == "sha-256":
            try:
                return base64.b64decode(value.strip(":"), validate=True).hex()
            except binascii.Error:
                raise InvalidInput(
                    "Content-Digest: expected sha-256=:base64:.", reason="BAD_DIGEST"
                ) from None
    return ""
