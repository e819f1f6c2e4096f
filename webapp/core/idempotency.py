"""Idempotency-Key on POST: the same key and body get the first answer again for 24 hours.

Only an answer that changed something is kept. A refused or failed call left nothing behind, so its
key is free again and the caller may mend the request or simply repeat it. An answer that holds a
secret is not kept, only that the call was carried out: a repeat is refused rather than run again.
"""

import hashlib
import json
from datetime import timedelta
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from webapp.core.errors import Conflict, ControlPlaneError, InvalidInput
from webapp.core.models import IdempotencyRecord

KEPT_FOR = timedelta(hours=24)
_ABANDONED_AFTER = timedelta(minutes=15)  # the process that ran the first call has died
_KEPT_HEADERS = ("Operation-Location", "Location", "ETag", "Retry-After")
_SAMPLE_BYTES = 64 * 1024


class KeyReused(ControlPlaneError):
    status = 422
    title = "Key used for another request"


class Replay(Exception):
    """Carries the first answer out of the view machinery."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def idempotency_begin(request: Request, *, keep_answer: bool = True) -> IdempotencyRecord | None:
    """The record to settle when this call is answered; None when no key was sent.

    Raises Replay with the first answer, KeyReused for another body, Conflict while the first runs
    or when its answer was not kept.
    """
    given = request.headers.get("Idempotency-Key")
    if given is None or not request.user.is_authenticated:
        return None
    key = given.strip()
    if not 0 < len(key) <= 200:
        raise InvalidInput("Idempotency-Key: 1 to 200 characters.", reason="BAD_IDEMPOTENCY_KEY")
    digest = _body_digest(request)
    route = request.path[:300]
    now = timezone.now()
    rows = IdempotencyRecord.objects.filter(user_id=request.user.pk, key=key, route=route)
    rows.filter(created_at__lt=now - KEPT_FOR).delete()
    rows.filter(status=None, created_at__lt=now - _ABANDONED_AFTER).delete()
    try:
        with transaction.atomic():
            return IdempotencyRecord.objects.create(
                user_id=request.user.pk, key=key, route=route, body_digest=digest
            )
    except IntegrityError:
        pass
    first = rows.first()
    if first is None or (first.status is None and first.body_digest == digest):
        raise Conflict(
            "The first call with this Idempotency-Key is still running.",
            reason="IDEMPOTENT_CALL_RUNNING",
            help_text="Repeat in a moment; you will get its answer.",
        )
    if first.body_digest != digest:
        raise KeyReused(
            "This Idempotency-Key was used with another body.",
            reason="IDEMPOTENCY_KEY_REUSED",
            help_text="Take a new key for a new request.",
        )
    if not keep_answer:
        raise Conflict(
            "The first call with this Idempotency-Key was carried out; its answer held a secret "
            "and is not kept.",
            reason="IDEMPOTENT_ANSWER_NOT_KEPT",
            help_text="If its answer never reached you, revoke or reset what it made and take a "
            "new key.",
        )
    raise Replay(_replayed(first))


def idempotency_settle(
    record: IdempotencyRecord, response: Response, *, keep_answer: bool = True
) -> None:
    if response.status_code >= 400:
        record.delete()
        return
    record.status = response.status_code
    if keep_answer:
        record.answer = json.loads(json.dumps(response.data, cls=JSONEncoder))
    record.headers = {name: response[name] for name in _KEPT_HEADERS if name in response}
    record.save(update_fields=["status", "answer", "headers"])


def idempotency_prune() -> int:
    """Deletes what is older than a day; returns how many."""
    old = IdempotencyRecord.objects.filter(created_at__lt=timezone.now() - KEPT_FOR)
    return old.delete()[0]


def _replayed(record: IdempotencyRecord) -> Response:
    headers = {**record.headers, "Idempotency-Replayed": "true"}
    return Response(record.answer, status=record.status, headers=headers)


def _body_digest(request: Request) -> str:
    """Of the parsed body: a file counts by name, size, head and tail, so that 10 GB stay on disk."""
    # Keyed: a body may hold a password, and the plain hash of a short one gives it away.
    digest = salted_hmac("webapp.core.idempotency", b"", algorithm="sha256")
    data: Any = request.data
    if isinstance(data, dict) and hasattr(data, "lists"):
        for name, values in sorted(data.lists()):
            for value in values:
                _add(digest, [name, _mark(value)])
    else:
        _add(digest, data)
    return digest.hexdigest()


def _mark(value: Any) -> Any:
    if not isinstance(value, UploadedFile):
        return value
    size = value.size or 0
    value.seek(0)
    head = value.read(_SAMPLE_BYTES)
    value.seek(max(0, size - _SAMPLE_BYTES))
    tail = value.read(_SAMPLE_BYTES)
    value.seek(0)
    return [value.name, size, hashlib.sha256(head + tail).hexdigest()]


def _add(digest: Any, value: Any) -> None:
    digest.update(json.dumps(value, sort_keys=True, cls=JSONEncoder).encode())
