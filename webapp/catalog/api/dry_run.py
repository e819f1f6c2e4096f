"""Dry runs of calls whose every effect is a row: done, shown and undone."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from rest_framework.response import Response


def tried(change: Callable[[], dict[str, Any]]) -> Response:
    """What `change` would answer; nothing of it stays."""
    with transaction.atomic():
        body = change()
        transaction.set_rollback(True)
    return Response(body)
