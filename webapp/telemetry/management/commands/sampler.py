"""`manage.py sampler`: reads every runtime once a second until told to stop."""

import signal
from threading import Event
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from webapp.core.readiness import mark_ready
from webapp.telemetry.sampler import Sampler


class Command(BaseCommand):
    help = "Reads every runtime once a second; of several samplers one leads."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = Event()

        def end(number: int, frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        # Ready before the first tick: a standby waits for its turn and is well.
        mark_ready()
        Sampler().run(stop)
