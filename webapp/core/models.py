"""Bases every app's tables share, and the record of answered idempotent calls."""

import secrets
from typing import ClassVar

from django.conf import settings
from django.db import models

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no letter that reads as another


def public_id(prefix: str) -> str:
    """A short unguessable id a person can read out, such as `op_3k9x0v7ra2m4q`."""
    return f"{prefix}_" + "".join(secrets.choice(_ALPHABET) for _ in range(13))


class TimestampedModel(models.Model):
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class IdempotencyRecord(models.Model):
    """The first answer to a POST that carried an Idempotency-Key; replayed for 24 hours."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    route = models.CharField(max_length=300)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)  # null: the first call still runs
    answer = models.JSONField(null=True)
    headers = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "key", "route"], name="one_answer_per_key")
        ]

    def __str__(self) -> str:
        return self.key
