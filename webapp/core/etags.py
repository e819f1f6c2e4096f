"""ETags over a row's own columns, and the If-Match rules of the API."""

import hashlib
import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.core.errors import PreconditionFailed, PreconditionRequired

_MUST_MATCH = frozenset({"PUT", "PATCH", "DELETE"})


def etag_of(obj: Model | Any) -> str:
    """A strong tag over every column (guarded updates do not touch `updated_at`), or over a plain value."""
    if isinstance(obj, Model):
        value: Any = {
            field.attname: field.value_to_string(obj) for field in obj._meta.concrete_fields
        }
        value["_"] = obj._meta.label
    else:
        value = obj
    text = json.dumps(value, sort_keys=True, cls=DjangoJSONEncoder)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


def check_if_match(request: Request, obj: Model | Any) -> None:
    """PUT, PATCH and DELETE need If-Match; an action by POST may send it."""
    given = request.headers.get("If-Match", "")
    current = etag_of(obj)
    if not given:
        if request.method in _MUST_MATCH:
            raise PreconditionRequired(
                "This call changes something others may be changing too, so it needs If-Match.",
                reason="IF_MATCH_REQUIRED",
                help_text="GET the resource and send its ETag in If-Match.",
                current_etag=current,
            )
        return
    tags = [tag.strip().removeprefix("W/") for tag in given.split(",")]
    if "*" not in tags and current not in tags:
        raise PreconditionFailed(
            "Somebody changed this since you read it.",
            reason="ETAG_MISMATCH",
            help_text="GET it again, check what changed, and repeat with the new ETag.",
            current_etag=current,
        )


def etag_response(request: Request, obj: Model | Any, body: Any, *, status: int = 200) -> Response:
    """`body` with the ETag of `obj`; 304 without a body when the caller already has it."""
    tag = etag_of(obj)
    known = [item.strip() for item in request.headers.get("If-None-Match", "").split(",")]
    if request.method in {"GET", "HEAD"} and tag in known:
        return Response(status=304, headers={"ETag": tag})
    return Response(body, status=status, headers={"ETag": tag})
