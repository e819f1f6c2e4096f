"""User Python as a backend: one supervised process per instance, and the server runs none of it itself.

An execution is one frame to the process and one back. What a model sends at any other time (responses of
decoupled models, calls of other models, metrics) comes through the side channel, on the event loop.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference_runtime.backends.base import (
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
)
from inference_runtime.backends.model_call import ModelCall, Reply, Reschedule
from inference_runtime.backends.python.config_completion import completed_config
from inference_runtime.backends.python.environments import ENVIRONMENTS, Environment
from inference_runtime.backends.python.instance_process import InstanceProcess
from inference_runtime.backends.python.options import (
    StubOptions,
    check_instance_name,
    read_options,
)
from inference_runtime.backends.python.start import environment_of, instance_text, launch
from inference_runtime.backends.python.stub_process import Launch, not_healthy
from inference_runtime.backends.python.supervisor import Supervisor
from inference_runtime.backends.python.watch import InstanceWatch
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig

logger = logging.getLogger(__name__)


class PythonBackend:
    utf8_strings = False
    overlapping = False
    per_request = True

    def __init__(self, options: Mapping[str, str], services: BackendServices) -> None:
        self._options = options
        self._services = services
        self._parts: _Parts | None = None

    @staticmethod
    def gpu_support() -> bool:
        """What the model does with the device it is told is its own affair; its tensors are in CPU memory."""
        return True

    @staticmethod
    def describe(
        artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription | None:
        return None

    @staticmethod
    def complete_config(
        artifact: ModelArtifact,
        config: Any,
        options: Mapping[str, str],
        services: BackendServices,
    ) -> Any:
        return completed_config(artifact, config, options, services)

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        check_instance_name(instance.name)
        limits = read_options(config.parameters, self._options)
        start = instance_text(artifact, config, instance)
        environment = environment_of(artifact, config.parameters)
        parts = _Parts(
            launch(instance.name, limits, self._services, environment),
            self._services,
            artifact,
            limits,
            start,
        )
        parts.environment = environment
        self._parts = parts
        try:
            parts.begin()
        except BaseException:
            self.unload()
            raise

    def execute_requests(self, calls: Sequence[ModelCall]) -> Sequence[Reply | Reschedule | None]:
        assert self._parts is not None
        return self._parts.execute(calls)

    def unload(self) -> None:
        if self._parts is not None:
            self._parts.end()
            self._parts = None

    @property
    def alive(self) -> bool:
        return self._parts is not None and self._parts.supervisor.alive

    @property
    def drain_limit(self) -> float:
        return self._parts.limits.unload_limit if self._parts is not None else 0.0

    async def check_ready(self) -> None:
        if self._parts is not None:
            await self._parts.check_ready()

    def abort(self) -> None:
        if self._parts is not None:
            self._parts.supervisor.kill()


class _Parts:
    """What a loaded instance consists of: its process, whoever keeps it alive, whoever looks at it."""

    def __init__(
        self,
        launched: Launch,
        services: BackendServices,
        artifact: ModelArtifact,
        limits: StubOptions,
        start: Mapping[str, Any],
    ) -> None:
        self.limits = limits
        self.environment: Environment | None = None
        self._launch = launched
        self._services = services
        self._model_name = artifact.model_name
        self._start = start
        self._replacing = False
        self._turn = threading.Lock()  # of an execution, or of putting another process in place
        labels = {
            "model": artifact.model_name,
            "version": str(artifact.version),
            "instance": launched.name,
        }
        self._watch = InstanceWatch(
            services,
            labels,
            process=lambda: self.supervisor.process,
            memory_limit=limits.memory_limit,
            too_large=self._too_large,
        )
        self.supervisor: Supervisor[InstanceProcess] = Supervisor(
            launched.name, services.loop, start=self._new_process, restarted=self._watch.restarted
        )

    def begin(self) -> None:
        self.supervisor.begin()
        self._on_loop(self._watch.begin)

    def execute(self, calls: Sequence[ModelCall]) -> list[Reply | Reschedule | None]:
        with self._turn:
            process = self.supervisor.process
            if process is None:
                raise not_healthy(self._launch.name)
            return process.execute(calls)

    async def check_ready(self) -> None:
        process = self.supervisor.process
        if process is not None:
            await process.check_ready()
        elif not self.supervisor.alive:
            raise not_healthy(self._launch.name)

    def end(self) -> None:
        self.supervisor.close(self.limits.finalize_limit)
        self._on_loop(self._watch.end)
        if self.environment is not None:
            ENVIRONMENTS.release(self.environment)

    def _new_process(self) -> InstanceProcess:
        process = InstanceProcess(
            self._launch, self._services, self._model_name, exited=self.supervisor.lost
        )
        process.load(self._start)
        return process

    def _too_large(self, process: InstanceProcess) -> None:
        if not self._replacing and not process.open_calls:
            self._replacing = True
            threading.Thread(
                target=self._replace,
                args=(process,),
                name=f"replace-{self._launch.name}",
                daemon=True,
            ).start()

    def _replace(self, process: InstanceProcess) -> None:
        try:
            self._replace_in_turn(process)
        finally:
            self._replacing = False

    def _replace_in_turn(self, process: InstanceProcess) -> None:
        with self._turn:
            # It may have been replaced meanwhile, or still be answering requests of a decoupled model.
            if self.supervisor.process is not process or process.open_calls:
                return
            logger.warning(
                "'%s' has grown beyond %d bytes and gets a new process",
                self._launch.name,
                self.limits.memory_limit,
            )
            self.supervisor.replace(self.limits.finalize_limit)

    def _on_loop(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed
            self._services.loop.call_soon_threadsafe(what)
