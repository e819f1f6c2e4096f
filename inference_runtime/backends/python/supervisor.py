"""Keeps the process of an instance alive: a dead one is replaced, later each time, and not for ever.

The sole writer of which process an instance has. Threads ask for it; its end is told on the event loop.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from inference_runtime.backends.python.stub_process import StubProcess, not_healthy
from inference_runtime.errors import RuntimeFault

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0
MAX_DEATHS = 5
DEATHS_WINDOW_SECONDS = 600.0


class BackOff:
    """How long to wait after a death, or that it is enough. Pure but for the clock it is given."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deaths: deque[float] = deque()

    def died(self) -> float | None:
        """Seconds to wait; None: give up."""
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_WINDOW_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) >= MAX_DEATHS:
            return None
        pause: float = FIRST_PAUSE_SECONDS * 2 ** (len(self._deaths) - 1)
        return min(pause, MAX_PAUSE_SECONDS)


class Supervised(Protocol):
    """A process that has loaded its model."""

    @property
    def stub(self) -> StubProcess: ...

    @property
    def gone(self) -> threading.Event: ...

    def stop(self, limit: float) -> None: ...
    def end(self) -> None: ...
    def kill(self) -> None: ...


Process = TypeVar("Process", bound=Supervised)


class Supervisor(Generic[Process]):
    """`start` makes a process that has loaded its model, or raises; it is called on threads only, and says
    `starting` before the model is loaded."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        start: Callable[[], Process],
        restarted: Callable[[], None],
    ) -> None:
        self._name = name
        self._loop = loop
        self._start = start
        self._restarted = restarted
        self._back_off = BackOff()
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._starting: Process | None = None  # may load its model for ever
        self._closed = False
        self._replacing = False
        self._trouble = ""

    @property
    def process(self) -> Process | None:
        """None: dead, and perhaps on its way back."""
        return self._process

    def begin(self) -> None:
        """The first start; raises the fault of the model."""
        process = self._start()
        if not self._put_in_place(process):
            raise not_healthy(self._name)

    def starting(self, process: Process) -> None:
        """Who closes in the meantime need not wait for its model."""
        with self._lock:
            self._starting = process
            closed = self._closed
        if closed:
            process.kill()

    def _put_in_place(self, process: Process) -> bool:
        """False: it has died already, or is not wanted any more."""
        with self._lock:
            self._starting = None
            wanted = not self._closed and not process.gone.is_set()
            if wanted:
                self._process = process
        return wanted

    def lost(self, process: Process) -> None:
        """Event loop. The end of any process, wanted or not."""
        with self._lock:
            if process is not self._process or self._closed:
                return
            self._process = None
        self._trouble = process.stub.fault().text
        logger.error("Stub process '%s' is unhealthy and it will be restarted.", self._name)
        self._wait_and_restart()

    @property
    def alive(self) -> bool:
        """There is a process, or one is being put in the place of one that was well."""
        process = self._process
        return self._replacing or (process is not None and not process.stub.doomed)

    @property
    def trouble(self) -> str:
        """Why there is none, for an operator; "" when all is well."""
        return "" if self.alive else self._trouble

    def replace(self, limit: float) -> None:
        """Another process in place of this one, while nothing executes. Not on the event loop."""
        with self._lock:
            process = self._process
            if process is None or self._closed:
                return
            self._process = None
            self._replacing = True
        try:
            process.stop(limit)
            self._restart()
        finally:
            self._replacing = False

    def close(self, limit: float) -> None:
        """Lets the model finalize, and then there is no process and none will come. May be repeated."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            starting, self._starting = self._starting, None
        if process is not None:
            process.stop(limit)
        if starting is not None:
            starting.end()

    def kill(self) -> None:
        """Also one that is being started: whoever waits for its turn is to be told."""
        for process in (self._process, self._starting):
            if process is not None:
                process.kill()

    def _wait_and_restart(self) -> None:
        pause = self._back_off.died()
        if pause is None:
            given_up = (
                f"died {MAX_DEATHS} times within {DEATHS_WINDOW_SECONDS // 60:g} minutes and is not "
                "restarted any more"
            )
            logger.error("'%s' %s", self._name, given_up)
            self._trouble += f" It {given_up}: load the model again."
            return
        self._loop.call_later(pause, self._restart_in_thread)

    def _restart_in_thread(self) -> None:
        if not self._closed:
            threading.Thread(
                target=self._restart, name=f"restart-{self._name}", daemon=True
            ).start()

    def _restart(self) -> None:
        try:
            process = self._start()
        except (RuntimeFault, OSError, MemoryError) as error:  # the system's limits pass, too
            self._starting = None
            if self._closed:
                return
            why = error.text if isinstance(error, RuntimeFault) else str(error)
            self._trouble = f"It could not be restarted: {why}"
            logger.error("'%s' could not be restarted: %s", self._name, why)
            self._again()
            return
        except RuntimeError:
            return  # the event loop has closed
        if self._put_in_place(process):
            self._tell(self._restarted)
            return
        process.end()
        self._again()

    def _again(self) -> None:
        if not self._closed:
            self._tell(self._wait_and_restart)

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            logger.debug("the event loop has closed")
