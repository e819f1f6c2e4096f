"""Traces as JSON on disk: one array in one file, or a file for every so many traces.

Writing happens on a thread of its own, which starts with the first trace and ends with `close`. What
waits for it is bounded: a file is written to early when much has gathered.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import orjson

from inference_runtime.telemetry.trace import Trace

logger = logging.getLogger(__name__)

_GATHER: Final = 1000  # traces
_GATHER_BYTES: Final = 64 << 20  # of their tensors
_WRITES: Final = 16  # that may wait for the disk


class _Gathered:
    """What waits to be written of those traced by one owner's settings."""

    __slots__ = ("index", "size", "traces", "written")

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.size = 0
        self.index = -1  # of the file that was begun for them, of those that have a number
        self.written = 0  # how many are in it


class TraceFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: ThreadPoolExecutor | None = None
        self._gathered: dict[str, _Gathered] = {}
        self._writing: set[Future[None]] = set()
        self._index = 0
        self._begun = False

    def add(self, trace: Trace, log_frequency: int) -> None:
        owner = trace.owner
        gathered = self._gathered.setdefault(owner, _Gathered())
        gathered.traces.append(trace)
        gathered.size += trace.size
        if 0 < log_frequency <= gathered.written + len(gathered.traces):
            self.flush(owner, log_frequency)
        elif len(gathered.traces) >= _GATHER or gathered.size > _GATHER_BYTES:
            self._submit(gathered, log_frequency)

    def flush(self, owner: str, log_frequency: int) -> None:
        """The next of them go to another file, where files have numbers."""
        gathered = self._gathered.pop(owner, None)
        if gathered is not None and gathered.traces:
            self._submit(gathered, log_frequency)

    def _submit(self, gathered: _Gathered, log_frequency: int) -> None:
        traces, gathered.traces, gathered.size = gathered.traces, [], 0
        self._writing = {future for future in self._writing if not future.done()}
        if len(self._writing) >= _WRITES:
            logger.error("%d traces were dropped: the disk does not keep up", len(traces))
            return
        path, append = self._path, self._begun
        if log_frequency:
            append = gathered.written > 0
            if not append:
                gathered.index = self._index
                self._index += 1
            path = f"{path}.{gathered.index}"
            gathered.written += len(traces)
        else:
            self._begun = True
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "trace-file")
        work = self._writer.submit(_write, Path(path), traces, append=append)
        self._writing.add(work)

    def close(self, log_frequency: Callable[[str], int]) -> None:
        for owner in list(self._gathered):
            self.flush(owner, log_frequency(owner))
        if self._writer is not None:
            self._writer.shutdown()


def _write(path: Path, traces: Sequence[Trace], *, append: bool) -> None:
    try:
        rows = [orjson.dumps(row) for trace in traces for row in trace.rows()]
        body = b",".join(rows) + b"]"
        if not (append and path.exists()):  # somebody may have moved it away
            path.write_bytes(b"[" + body)
            return
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)  # the array's closing bracket
            file.write(b"," + body)
    except Exception:
        logger.exception("traces could not be written to '%s'", path)
