"""ETags over a row's own columns, and the If-Match rules of the API (docs/adr/0011)."""

import hashlib
import json
import re
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.core.errors import InvalidInput, PreconditionFailed, PreconditionRequired

_MUST_MATCH = frozenset({"PUT", "PATCH", "DELETE"})
_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_IF_MATCH = re.compile(rf"\s*(?:\*|{_TAG}(?:\s*,\s*{_TAG})*)\s*\Z")


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


def if_match_tags(request: Request) -> list[str]:
    """The tags of If-Match, or ["*"]; empty without the header. Raises InvalidInput."""
    given = request.headers.get("If-Match")
    if given is None:
        return []
    if not _IF_MATCH.match(given):
        raise InvalidInput(
            f"If-Match: expected an ETag in its quotes, got {given[:80]!r}.",
            reason="BAD_IF_MATCH",
            help_text="Send the ETag header of the answer as it came, quotes included.",
        )
    # A proxy that compresses makes our strong tags weak ones; they still name what was read.
    return re.findall(r'"[^"]*"|\*', given)


def check_if_match(request: Request, obj: Model | Any) -> None:
    """PUT, PATCH and DELETE need If-Match; an action by POST may send it."""
    tags = if_match_tags(request)
    current = etag_of(obj)
    if not tags:
        if request.method in _MUST_MATCH:
            raise PreconditionRequired(
                "This call changes something others may be changing too, so it needs If-Match.",
                reason="IF_MATCH_REQUIRED",
                help_text="GET the resource and send its ETag in If-Match.",
                current_etag=current,
            )
        return
    if "*" not in tags and current not in tags:
        raise PreconditionFailed(
            "Somebody changed this since you read it.",
            reason="ETAG_MISMATCH",
            help_text="GET it again, check what changed, and repeat with the new ETag.",
            current_etag=current,
        )


def tagged(obj: Model | Any, body: Any, *, status: int = 200) -> Response:
    """`body` with the ETag of `obj`, which names what can be changed and not all that is shown."""
    return Response(body, status=status, headers={"ETag": etag_of(obj)})


def etag_response(request: Request, obj: Model | Any, body: Any, *, status: int = 200) -> Response:
    """`body` with the ETag of `obj`; 304 without a body when the caller already has it.

    Only where `obj` says all that `body` does: anything else would hide what is new.
    """
    tag = etag_of(obj)
    known = [item.strip() for item in request.headers.get("If-None-Match", "").split(",")]
    if request.method in {"GET", "HEAD"} and tag in known:
        return Response(status=304, headers={"ETag": tag})
    return Response(body, status=status, headers={"ETag": tag})
