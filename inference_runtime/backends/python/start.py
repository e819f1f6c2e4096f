"""How the processes of an instance are started, and what they are told first."""

import sys
from collections.abc import Mapping
from typing import Any

from inference_runtime.backends.base import BackendServices, ModelArtifact
from inference_runtime.backends.python.environments import ENVIRONMENTS, Environment
from inference_runtime.backends.python.options import ENVIRONMENT, StubOptions, model_file
from inference_runtime.backends.python.stub_process import Launch
from inference_runtime.spec.message_json import message_json
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig


def launch(
    name: str,
    options: StubOptions,
    services: BackendServices,
    environment: Environment | None,
) -> Launch:
    base = services.environment
    return Launch(
        name=name,
        interpreter=environment.interpreter if environment is not None else sys.executable,
        environment=environment.variables(base) if environment is not None else base,
        arena_size=options.arena_size,
        memory_name=options.memory_name,
        start_limit=options.start_limit,
        resource_limits=options.resource_limits,
    )


def environment_of(artifact: ModelArtifact, parameters: Mapping[str, str]) -> Environment | None:
    """None: the server's own. To be given back; raises InvalidArgument."""
    value = parameters.get(ENVIRONMENT)
    return ENVIRONMENTS.acquire(value, artifact.model_directory) if value else None


def instance_text(
    artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec
) -> dict[str, Any]:
    """For an instance that is to serve."""
    return {
        **model_text(artifact, config.default_model_filename),
        "instance_name": instance.name,
        "decoupled": config.decoupled,
        "args": {
            "model_config": message_json(config.proto).decode(),
            "model_instance_kind": instance.kind.name,
            "model_instance_device_id": str(instance.gpu or 0),
            "model_instance_name": instance.name,
            "model_repository": str(artifact.model_directory),
            "model_version": str(artifact.version),
            "model_name": artifact.model_name,
        },
    }


def model_text(artifact: ModelArtifact, filename: str) -> dict[str, Any]:
    """What every process of a model is told; raises InvalidArgument when there is no such file."""
    return {
        "model_name": artifact.model_name,
        "instance_name": artifact.model_name,
        "decoupled": False,
        "file": model_file(artifact, filename),
        "version_directory": str(artifact.directory),
        "model_directory": str(artifact.model_directory),
    }
