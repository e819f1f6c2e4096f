"""Traces as JSON on disk: one array in one file, or a file for every so many traces.

Writing happens on a thread of its own, which starts with the first trace and ends with `close`. What
waits for it is bounded: a file with one array is written to early when much has gathered.
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

    __slots__ = ("size", "traces")

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.size = 0


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
        enough = min(log_frequency, _GATHER) or _GATHER
        if len(gathered.traces) >= enough or gathered.size > _GATHER_BYTES:
            self.flush(owner, log_frequency)

    def flush(self, owner: str, log_frequency: int) -> None:
        gathered = self._gathered.pop(owner, None)
        if gathered is None:
            return
        self._writing = {future for future in self._writing if not future.done()}
        if len(self._writing) >= _WRITES:
            logger.error("%d traces were dropped: the disk does not keep up", len(gathered.traces))
            return
        path = self._path
        if log_frequency:
            path = f"{path}.{self._index}"
            self._index += 1
        append = not log_frequency and self._begun
        self._begun |= not log_frequency
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "trace-file")
        work = self._writer.submit(_write, Path(path), gathered.traces, append=append)
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
