"""User Python as a backend: one supervised process per instance, and the server runs none of it itself.

An execution is one frame to the process and one back. What a model sends at any other time (responses of
decoupled models, calls of other models, metrics) comes through the side channel, on the event loop.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from inference_runtime.backends.base import (
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
)
from inference_runtime.backends.model_call import ModelCall, Reply, Reschedule
from inference_runtime.backends.python.config_completion import completed_config
from inference_runtime.backends.python.instance_process import InstanceProcess
from inference_runtime.backends.python.options import (
    StubOptions,
    check_instance_name,
    read_options,
)
from inference_runtime.backends.python.start import instance_text, launch
from inference_runtime.backends.python.stub_process import Launch, not_healthy
from inference_runtime.backends.python.supervisor import Supervisor
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig

logger = logging.getLogger(__name__)


class PythonBackend:
    utf8_strings = False
    overlapping = False
    per_request = True

    def __init__(self, options: Mapping[str, str], services: BackendServices) -> None:
        self._options = options
        self._services = services
        self._name = ""
        self._limits = StubOptions()
        self._start: dict[str, Any] = {}
        self._launch: Launch | None = None
        self._supervisor: Supervisor | None = None

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
        self._name = instance.name
        self._limits = read_options(config.parameters, self._options)
        self._start = instance_text(artifact, config, instance)
        self._launch = launch(self._name, self._limits, self._services)
        self._supervisor = Supervisor(
            self._name, self._services.loop, start=self._started, restarted=self._count_restart
        )
        self._supervisor.begin()

    def execute_requests(self, calls: Sequence[ModelCall]) -> Sequence[Reply | Reschedule | None]:
        process = self._process
        if process is None:
            raise not_healthy(self._name)
        return process.execute(calls)

    def unload(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close(self._limits.finalize_limit)

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def drain_limit(self) -> float:
        return self._limits.unload_limit

    async def check_ready(self) -> None:
        process = self._process
        if process is None:
            raise not_healthy(self._name)
        await process.check_ready()

    def abort(self) -> None:
        if self._supervisor is not None:
            self._supervisor.kill()

    @property
    def _process(self) -> InstanceProcess | None:
        return self._supervisor.process if self._supervisor is not None else None

    def _started(self) -> InstanceProcess:
        assert self._launch is not None
        assert self._supervisor is not None
        process = InstanceProcess(self._launch, self._services, exited=self._supervisor.lost)
        process.load(self._start)
        return process

    def _count_restart(self) -> None:
        logger.info("'%s' is back", self._name)
