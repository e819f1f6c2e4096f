"""Bare ONNX Runtime in a process of its own: `session.run` in a loop, nothing around it."""

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.subjects import Subject, Tensors, batch_of

Loop = tuple[str, int]  # a subject's name, a batch size


class BareLoops:
    """One session per subject and one thread, idle but when asked: a loop counts right beside what is
    compared with it, since the machine may be another one a minute later."""

    def __init__(self, asking: "Connection[Any, Any]") -> None:
        self._asking = asking

    def items_per_second(self, subject: Subject, *, batch: int, seconds: float) -> float:
        self._asking.send(((subject.name, batch), seconds))
        calls: float = self._asking.recv()
        return calls * batch


@contextmanager
def bare_loops(*wanted: tuple[Subject, int]) -> Iterator[BareLoops]:
    """For the batch sizes named here."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    files = {subject.name: subject.file for subject, _ in wanted}
    feeds = {(subject.name, batch): batch_of(subject.item, batch) for subject, batch in wanted}
    process = context.Process(target=_serve, args=(theirs, files, feeds), daemon=True)
    process.start()
    theirs.close()
    try:
        yield BareLoops(ours)
    finally:
        ours.close()
        process.join()


def _serve(
    asked: "Connection[Any, Any]", files: Mapping[str, Path], feeds: Mapping[Loop, Tensors]
) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    sessions = {
        name: onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        for name, file in files.items()
    }
    while True:
        try:
            loop, seconds = asked.recv()
        except EOFError:
            return
        asked.send(_calls_per_second(sessions[loop[0]], feeds[loop], seconds))


def _calls_per_second(session: Any, feed: Tensors, seconds: float) -> float:
    names = [output.name for output in session.get_outputs()]
    for _warm_up in range(3):
        session.run(names, feed)
    calls, started = 0, time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        session.run(names, feed)
        calls += 1
    return calls / (now - started)
