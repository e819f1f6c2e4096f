"""Log lines in tritonserver's two forms, and settings that may change while the server runs.

What comes from outside can not forge a line: messages are one quoted line each, unless the operator
switched the escaping off.
"""

import datetime as dt
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

FORMATS: Final = ("default", "ISO8601")
_LETTERS: Final = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}
# Of what JSON leaves as it is: the rest of the control characters, and Unicode's own line ends.
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The values of the `--log-*` options. `escape` is the environment's, and no client's to change."""

    file: str = ""
    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0
    format: str = FORMATS[0]
    escape: bool = True

    @property
    def levels(self) -> frozenset[int]:
        switches = {
            logging.DEBUG: self.verbose_level > 0,
            logging.INFO: self.info,
            logging.WARNING: self.warning,
            logging.ERROR: self.error,
        }
        return frozenset(level for level, on in switches.items() if on)


class RuntimeLog:
    """Holds the settings in force; the one place that changes them."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self.settings = settings or LogSettings()
        self._root: logging.Logger | None = None
        self._listeners: list[Callable[[LogSettings], None]] = []

    def install(self) -> None:
        """Makes the process log this way; raises OSError when the file can not be opened."""
        handlers = _handlers(self.settings.file)
        formatter = TritonFormatter(self)
        for handler in handlers:
            handler.setFormatter(formatter)
            handler.addFilter(self._wanted)
        self._root = logging.getLogger()
        self._root.handlers[:] = handlers
        self._set_level()

    def listen(self, listener: Callable[[LogSettings], None]) -> None:
        """`listener` is called now, and after every change."""
        self._listeners.append(listener)
        listener(self.settings)

    def change(self, **values: Any) -> None:
        self.settings = replace(self.settings, **values)
        self._set_level()
        for listener in self._listeners:
            listener(self.settings)

    def _set_level(self) -> None:
        if self._root is not None:
            self._root.setLevel(min(self.settings.levels, default=logging.CRITICAL))

    def _wanted(self, record: logging.LogRecord) -> bool:
        return min(record.levelno, logging.ERROR) in self.settings.levels


class TritonFormatter(logging.Formatter):
    def __init__(self, log: RuntimeLog) -> None:
        super().__init__()
        self._log = log
        self._pid = os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        settings = self._log.settings
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        letter = _LETTERS.get(record.levelno, "E")
        if settings.format == "ISO8601":
            start = f"{moment:%Y-%m-%dT%H:%M:%SZ} {letter}"
        else:
            start = f"{letter}{moment:%m%d %H:%M:%S.%f}"
        message = record.getMessage()
        if settings.escape:
            message = f'"{_escaped(message)}"'
        line = f"{start} {self._pid} {record.filename}:{record.lineno}] {message}"
        if record.exc_info:
            # Indented, so that no line of a traceback can look like one of the log.
            trace = self.formatException(record.exc_info).splitlines()
            line = "\n    ".join((line, *map(_escaped, trace)))
        return line


def _escaped(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)[1:-1].translate(_ESCAPES)
    return quoted.encode("utf-8", "backslashreplace").decode()


def _handlers(file: str) -> list[logging.Handler]:
    """One file for everything; else warnings and errors on standard error, the rest on standard output."""
    if file:
        return [logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")]
    out, errors = logging.StreamHandler(sys.stdout), logging.StreamHandler(sys.stderr)
    out.addFilter(lambda record: record.levelno < logging.WARNING)
    errors.addFilter(lambda record: record.levelno >= logging.WARNING)
    return [out, errors]
