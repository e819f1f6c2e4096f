"""One loaded copy on one device: executes one batch at a time, on the caller's thread or on its own.

The thread is made when the first batch asks for it, is never shared, and outlives whatever a model
raises; it ends with `stop`.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.instances.host_binding import bind_thread
from inference_runtime.telemetry.stats import DeviceStats, InstanceStats

logger = logging.getLogger(__name__)

Finished = Callable[["Instance", Execution], None]


class Runner(Protocol):
    """Makes an execution of a batch; no exception gets out, whatever the model does."""

    def run(self, backend: Any, batch: Batch) -> Execution: ...
    def failed(self, batch: Batch, error: BaseException) -> Execution: ...


class Instance:
    def __init__(
        self,
        loaded: LoadedInstance,
        *,
        runner: Runner,
        device: DeviceStats,
        work: InstanceStats,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name = loaded.spec.name
        self.device = device
        self._stats = work
        self._backend = loaded.backend
        self._host_policy = loaded.host_policy
        self._health = loaded.health
        # Of a model that sees requests one by one: it keeps what it knows of a sequence itself.
        self.remembers = loaded.per_request and loaded.health is not None
        self._runner = runner
        self._loop = loop
        self._work: queue.SimpleQueue[tuple[Batch, Finished] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = asyncio.Event()

    @property
    def can_die(self) -> bool:
        return self._health is not None

    @property
    def alive(self) -> bool:
        return self._health is None or self._health.alive

    def process_number(self) -> int:
        """Of the process that executes, another for each; 0: there is none now."""
        return self._health.process_number if self._health is not None else 0

    def run(self, batch: Batch) -> Execution:
        """On this very thread; for models that take microseconds."""
        execution = self._runner.run(self._backend, batch)
        times = execution.times
        self._stats.busy_ns += times.finished_ns - times.started_ns
        return execution

    def run_in_thread(self, batch: Batch, finished: Finished) -> None:
        """`finished(self, execution)` is called on the event loop. The caller waits for it before the next batch."""
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name=f"instance-{self.name}", daemon=True)
            try:
                thread.start()
            except (
                RuntimeError
            ) as error:  # the system gives no more threads now; the next batch tries again
                self._loop.call_soon(finished, self, self._runner.failed(batch, error))
                return
            self._thread = thread
        self._work.put((batch, finished))

    async def stop(self) -> None:
        """Returns when the thread has ended; a batch in hand is finished first."""
        if self._thread is None:
            return
        self._work.put(None)
        await self._ended.wait()
        self._thread = None

    def _serve(self) -> None:
        if self._host_policy is not None:
            bind_thread(self._host_policy)
        while True:
            work = self._work.get()
            if work is None:
                break
            batch, finished = work
            try:
                execution = self._runner.run(self._backend, batch)
            except BaseException as error:  # noqa: BLE001  even SystemExit in a model must not end the instance
                execution = self._runner.failed(batch, error)
            self._stats.busy_ns += execution.times.compute_ns
            self._tell(finished, self, execution)
            # An idle thread keeps no tensors alive.
            del work, batch, finished, execution
        self._tell(self._ended.set)

    def _tell(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback, *arguments)
