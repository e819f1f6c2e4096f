"""Keeps a dead Redis from filling the log: one line per half minute instead of a traceback a second."""

import logging
import time

_NOISY = frozenset({"channels_redis.pubsub", "channels_redis.core"})
_QUIET_SECONDS = 30.0


class BrokenLineFilter(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name not in _NOISY or record.exc_info is None:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _QUIET_SECONDS
        error = record.exc_info[1]
        record.msg, record.args = "live events: Redis does not answer, trying again: %s", (error,)
        record.exc_info = None
        record.exc_text = None
        return True
