"""Looks at an instance's process once a second: its memory, and whether it has been idle."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from inference_runtime.backends.base import BackendServices
from inference_runtime.backends.python.supervisor import Supervised

_EVERY_SECONDS = 1.0
_IDLE_SECONDS = 60.0
_RESTARTS = "nv_python_stub_restarts_total"
_MEMORY = "runtime_python_process_memory_bytes"


class Watched(Supervised, Protocol):
    """A process that tells how it is doing."""

    @property
    def executions(self) -> int:
        """How many it has finished."""

    @property
    def executing(self) -> bool: ...

    @property
    def open_calls(self) -> int:
        """Of decoupled models: those that wait for their last response."""

    def trim(self) -> None:
        """Nothing has happened for a while: memory that only waits goes back to the system."""


Process = TypeVar("Process", bound=Watched)


class InstanceWatch(Generic[Process]):
    """Event loop only. `too_large` is called as long as the process is above the limit; 0 is no limit."""

    def __init__(
        self,
        services: BackendServices,
        labels: dict[str, str],
        *,
        process: Callable[[], Process | None],
        memory_limit: int,
        too_large: Callable[[Process], None],
    ) -> None:
        self._loop = services.loop
        self._metrics = services.metrics
        self._labels = labels
        self._process = process
        self._memory_limit = memory_limit
        self._too_large = too_large
        self._timer: asyncio.TimerHandle | None = None
        self._idle_since: tuple[int, float] = (0, 0.0)
        self._trimmed = False
        self._restarts = self._memory = 0

    def begin(self) -> None:
        self._restarts = self._metric(
            _RESTARTS,
            "Processes of model instances that were started in place of another",
            "COUNTER",
        )
        self._memory = self._metric(
            _MEMORY, "Resident memory of the process that a model instance has of its own", "GAUGE"
        )
        self._look()

    def restarted(self) -> None:
        self._metrics.change(self, self._restarts, "increment", 1)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._metrics.drop(self)

    def _metric(self, name: str, help_: str, kind: str) -> int:
        family = self._metrics.family(self, name, help_, kind)
        return self._metrics.metric(self, family, self._labels, ())

    def _look(self) -> None:
        self._timer = self._loop.call_later(_EVERY_SECONDS, self._look)
        process = self._process()
        if process is None:
            return
        size = process.stub.resident_bytes()
        self._metrics.change(self, self._memory, "set", float(size))
        if self._memory_limit and size > self._memory_limit:
            self._too_large(process)
        self._look_for_idleness(process)

    def _look_for_idleness(self, process: Process) -> None:
        now = self._loop.time()
        done, since = self._idle_since
        if process.executions != done or process.executing or process.open_calls:
            self._idle_since = process.executions, now
            self._trimmed = False
        elif not self._trimmed and now - since >= _IDLE_SECONDS:
            self._trimmed = True
            process.trim()
