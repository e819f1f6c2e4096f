"""How a worker process starts, lives through the death of Redis, and proves that it still consumes."""

import logging
import os
import threading
import time
from typing import Any

from celery.signals import beat_init, task_received, worker_process_init, worker_ready
from celery.worker import state
from django.db import connections
from kombu.transport.redis import Channel

from webapp.core.readiness import mark_ready

logger = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
EXIT_STUCK = 75


def install() -> None:
    """Called once, when the application is made."""
    # Messages are wake-ups that may be lost: jobs_reap repeats them. Putting unread ones back into
    # a Redis that has just died raises AttributeError inside kombu and ends the worker.
    Channel.do_restore = False
    worker_process_init.connect(_forget_inherited_connections)
    worker_ready.connect(_worker_ready)
    beat_init.connect(_beat_ready)


def _forget_inherited_connections(**_: Any) -> None:
    """A pool process must not speak over its parent's connections."""
    connections.close_all()


def _worker_ready(sender: Any, **_: Any) -> None:
    app = sender.app
    seconds = float(app.conf.get("worker_silent_seconds") or SILENT_SECONDS)
    ConsumptionWatch(app, queues=list(app.amqp.queues.consume_from), seconds=seconds).start()
    mark_ready()


def _beat_ready(**_: Any) -> None:
    mark_ready()


class ConsumptionWatch:
    """Ends the worker when messages wait, hands are free, and yet nothing is taken.

    That has happened to workers whose broker went away and came back; a supervisor starts the
    process anew, while nothing would ever wake one that merely looks alive.
    """

    def __init__(self, app: Any, *, queues: list[str], seconds: float) -> None:
        self._app = app
        self._queues = queues
        self._seconds = seconds
        self._received_at = time.monotonic()

    def start(self) -> None:
        task_received.connect(self._received, weak=False)
        threading.Thread(target=self._watch, name="consumption-watch", daemon=True).start()

    def _received(self, **_: Any) -> None:
        self._received_at = time.monotonic()

    def _watch(self) -> None:
        waiting_since: float | None = None
        while True:
            time.sleep(self._seconds / 6)
            now = time.monotonic()
            if not self._starving():
                waiting_since = None
                continue
            waiting_since = waiting_since or now
            silent = now - max(waiting_since, self._received_at)
            if silent >= self._seconds:
                logger.critical("messages wait, but none was taken for %.0f s: restart", silent)
                os._exit(EXIT_STUCK)

    def _starving(self) -> bool:
        """Somebody waits, and no task keeps this worker busy."""
        if state.active_requests:
            return False
        try:
            with self._app.connection_for_read() as connection:
                channel = connection.default_channel
                return any(channel._size(queue) for queue in self._queues)
        except Exception as error:  # noqa: BLE001 - an absent broker is not our fault and not starving
            logger.debug("cannot look at the queues: %s", error)
            return False
