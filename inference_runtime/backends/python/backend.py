"""User Python as a backend: one supervised process per instance, and the server runs none of it itself.

An execution is one frame to the process and one back. What a model sends at any other time (responses of
decoupled models, calls of other models, metrics) comes through the side channel, on the event loop.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inference_runtime.backends.base import (
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
)
from inference_runtime.backends.model_call import ModelCall, Reply, Reschedule, are_at_home
from inference_runtime.backends.python.config_completion import completed_config
from inference_runtime.backends.python.environments import ENVIRONMENTS, Environment
from inference_runtime.backends.python.instance_process import InstanceProcess
from inference_runtime.backends.python.options import check_instance_name, read_options
from inference_runtime.backends.python.start import environment_of, instance_text, launch
from inference_runtime.backends.python.stub_process import not_healthy
from inference_runtime.backends.python.supervised_instance import (
    SupervisedBackend,
    SupervisedInstance,
)
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig


class PythonBackend(SupervisedBackend[InstanceProcess]):
    utf8_strings = False
    overlapping = False
    per_request = True

    def __init__(self, options: Mapping[str, str], services: BackendServices) -> None:
        self._options = options
        self._services = services
        self._environment: Environment | None = None

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
        launched = launch(instance.name, limits, self._services, environment)

        def new_process() -> InstanceProcess:
            process = InstanceProcess(
                launched, self._services, artifact.model_name, exited=supervised.supervisor.lost
            )
            supervised.supervisor.starting(process)
            process.load(start)
            return process

        supervised = SupervisedInstance(
            instance.name, artifact, self._services, limits, new_process
        )
        self._environment = environment
        self._begin(supervised)

    def execute_requests(self, calls: Sequence[ModelCall]) -> Sequence[Reply | Reschedule | None]:
        assert self._instance is not None
        with self._instance.turn() as process:
            # It may be another one than when the batch was formed.
            if not are_at_home(calls, process.stub.number):
                raise not_healthy(self._instance.name)
            return process.execute(calls)

    def unload(self) -> None:
        super().unload()
        if self._environment is not None:
            ENVIRONMENTS.release(self._environment)
            self._environment = None

    async def check_ready(self) -> None:
        process = self._instance.process if self._instance is not None else None
        if process is not None:
            await process.check_ready()
