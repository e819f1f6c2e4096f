"""What a model's `auto_complete_config` says, asked in a short-lived process of its own."""

from collections.abc import Mapping
from typing import Any

import orjson

from inference_runtime.backends.base import BackendServices, ModelArtifact
from inference_runtime.backends.python.environments import ENVIRONMENTS
from inference_runtime.backends.python.model_requests import log_line
from inference_runtime.backends.python.options import read_options
from inference_runtime.backends.python.start import environment_of, launch, model_text
from inference_runtime.backends.python.stub_process import Launch, StubProcess
from inference_runtime.backends.python.wire.arena import Unpacker
from inference_runtime.backends.python.wire.frames import Kind
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_text import config_from_json
from inference_runtime.spec.message_json import message_json


def completed_config(
    artifact: ModelArtifact,
    config: Any,
    options: Mapping[str, str],
    services: BackendServices,
) -> Any:
    """The config that takes the place of `config`; raises the model's fault, with its text."""
    parameters = {key: value.string_value for key, value in config.parameters.items()}
    limits = read_options(parameters, options)
    start = {
        **model_text(artifact, config.default_model_filename),
        "config": message_json(config).decode(),
    }
    environment = environment_of(artifact, parameters)
    try:
        answer = _asked(launch(artifact.model_name, limits, services, environment), services, start)
    finally:
        if environment is not None:
            ENVIRONMENTS.release(environment)
    if answer["config"] is None:
        return config
    completed = config_from_json(orjson.dumps(answer["config"]).decode())
    if completed.name != config.name:
        raise InvalidArgument(
            f"auto_complete_config function in model '{config.name}' must not change its name"
        )
    return completed


def _asked(launched: Launch, services: BackendServices, start: Any) -> Any:
    process = StubProcess(launched, services.loop, received=_received, exited=lambda _: None)
    try:
        return process.begin(Kind.COMPLETE_CONFIG, start)
    finally:
        process.end()


def _received(kind: int, text: Any, tensors: Unpacker) -> None:
    """Log lines; a model that has no instance yet has nothing else to say."""
    if kind == Kind.TELL and text["what"] == "log":
        log_line(text)
