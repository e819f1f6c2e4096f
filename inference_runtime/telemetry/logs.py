"""Log lines in tritonserver's two forms; what comes from outside can not forge a line."""

import datetime as dt
import logging
import os
import sys

_LETTERS = {logging.DEBUG: "V", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}
_ESCAPES = {code: f"\\x{code:02x}" for code in range(32)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    127: "\\x7f",
}


class TritonFormatter(logging.Formatter):
    def __init__(self, *, iso8601: bool) -> None:
        super().__init__()
        self._iso8601 = iso8601
        self._pid = os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        letter = _LETTERS.get(record.levelno, "E")
        if self._iso8601:
            start = f"{moment:%Y-%m-%dT%H:%M:%SZ} {letter}"
        else:
            start = f"{letter}{moment:%m%d %H:%M:%S.%f}"
        message = record.getMessage().translate(_ESCAPES)
        line = f"{start} {self._pid} {record.filename}:{record.lineno}] {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logs(*, levels: frozenset[int], iso8601: bool, file: str = "") -> None:
    """`levels` are those to be seen; call it once, before anything is logged."""
    handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    handler.setFormatter(TritonFormatter(iso8601=iso8601))
    handler.addFilter(lambda record: min(record.levelno, logging.ERROR) in levels)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(min(levels, default=logging.CRITICAL))
