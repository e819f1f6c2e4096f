"""An instance in a process of its own: the process, whoever keeps it alive, whoever looks at it."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from inference_runtime.backends.base import BackendServices, ModelArtifact
from inference_runtime.backends.python.options import StubOptions
from inference_runtime.backends.python.stub_process import not_healthy
from inference_runtime.backends.python.supervisor import Supervisor
from inference_runtime.backends.python.watch import InstanceWatch, Watched

logger = logging.getLogger(__name__)

Process = TypeVar("Process", bound=Watched)


class SupervisedInstance(Generic[Process]):
    """`new_process` starts one that has loaded its model, or raises; it is called on threads only."""

    def __init__(
        self,
        name: str,
        artifact: ModelArtifact,
        services: BackendServices,
        limits: StubOptions,
        new_process: Callable[[], Process],
    ) -> None:
        self.limits = limits
        self.name = name
        self._services = services
        self._replacing = False
        self._turn = threading.Lock()  # of an execution, or of putting another process in place
        labels = {
            "model": artifact.model_name,
            "version": str(artifact.version),
            "instance": name,
        }
        self._watch: InstanceWatch[Process] = InstanceWatch(
            services,
            labels,
            process=lambda: self.supervisor.process,
            memory_limit=limits.memory_limit,
            too_large=self._too_large,
        )
        self._new_process = new_process
        self.supervisor: Supervisor[Process] = Supervisor(
            name, services.loop, start=self._start, restarted=self._watch.restarted
        )

    @property
    def process(self) -> Process | None:
        return self.supervisor.process

    @property
    def alive(self) -> bool:
        return self.supervisor.alive

    def begin(self) -> None:
        """Raises the fault of the model."""
        self.supervisor.begin()
        self._on_loop(self._watch.begin)

    @contextlib.contextmanager
    def turn(self) -> Iterator[Process]:
        """For one execution; raises the fault of a dead instance."""
        with self._turn:
            process = self.supervisor.process
            if process is None:
                raise not_healthy(self.name)
            yield process

    def end(self) -> None:
        """There is no process any more when this returns. May be repeated."""
        self.supervisor.close(self.limits.finalize_limit)
        self._on_loop(self._watch.end)

    def _start(self) -> Process:
        with self._services.place():  # the thread is any; the process stays where it was started
            return self._new_process()

    def _too_large(self, process: Process) -> None:
        if not self._replacing and not process.open_calls:
            self._replacing = True
            threading.Thread(
                target=self._replace, args=(process,), name=f"replace-{self.name}", daemon=True
            ).start()

    def _replace(self, process: Process) -> None:
        try:
            self._replace_in_turn(process)
        finally:
            self._replacing = False

    def _replace_in_turn(self, process: Process) -> None:
        with self._turn:
            # It may have been replaced meanwhile, or still be answering requests of a decoupled model.
            if self.supervisor.process is not process or process.open_calls:
                return
            logger.warning(
                "'%s' has grown beyond %d bytes and gets a new process",
                self.name,
                self.limits.memory_limit,
            )
            self.supervisor.replace(self.limits.finalize_limit)

    def _on_loop(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed
            self._services.loop.call_soon_threadsafe(what)


class SupervisedBackend(Generic[Process]):
    """What a backend with a process of its own tells the server about it; None: not loaded, or unloaded."""

    _instance: SupervisedInstance[Process] | None = None

    def _begin(self, instance: SupervisedInstance[Process]) -> None:
        self._instance = instance
        try:
            instance.begin()
        except BaseException:
            self.unload()
            raise

    def unload(self) -> None:
        if self._instance is not None:
            self._instance.end()
            self._instance = None

    @property
    def alive(self) -> bool:
        return self._instance is not None and self._instance.alive

    @property
    def process_number(self) -> int:
        process = self._instance.process if self._instance is not None else None
        return process.stub.number if process is not None else 0

    @property
    def trouble(self) -> str:
        return self._instance.supervisor.trouble if self._instance is not None else ""

    @property
    def drain_limit(self) -> float:
        return self._instance.limits.unload_limit if self._instance is not None else 0.0

    def abort(self) -> None:
        if self._instance is not None:
            self._instance.supervisor.kill()
