"""Bare ONNX Runtime in a process of its own: `session.run` in a loop, nothing around it."""

import multiprocessing
import time
from pathlib import Path
from typing import Any

from bench.subjects import Tensors, batch_of


def items_per_second(file: Path, item: Tensors, *, batch: int, seconds: float) -> float:
    """One session, one thread. A fresh process each time, so that no round warms the next."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, str(file), batch_of(item, batch), seconds)
    process = context.Process(target=_loop, args=arguments)
    process.start()
    sender.close()
    try:
        calls: float = receiver.recv()
    finally:
        process.join()
    return calls * batch


def _loop(sender: Any, file: str, feed: dict[str, Any], seconds: float) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for _warm_up in range(10):
        session.run(names, feed)
    calls, started = 0, time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        session.run(names, feed)
        calls += 1
    sender.send(calls / (now - started))
