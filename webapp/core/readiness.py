"""Tells the supervisor that this process works now, by the file it named in SWITCHYARD_READY_FILE."""

from pathlib import Path

from django.conf import settings


def mark_ready() -> None:
    """Call once, when the process has started doing its work; without a supervisor: nothing."""
    if settings.READY_FILE:
        Path(settings.READY_FILE).touch()
