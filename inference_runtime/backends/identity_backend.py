"""The backend that echoes: output i is input i. The reference for tests and the floor for benchmarks."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from inference_runtime.backends.base import (
    Array,
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
)
from inference_runtime.errors import Internal, InvalidArgument
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig


class IdentityBackend:
    """`execute_delay_ms` in the config's parameters makes every execution take that long."""

    utf8_strings = False
    overlapping = True
    per_request = False

    def __init__(self, options: Mapping[str, str], services: BackendServices | None = None) -> None:
        self._sources: dict[str, int] = {}
        self._delay_seconds = 0.0

    @staticmethod
    def gpu_support() -> bool:
        return False

    @staticmethod
    def describe(
        artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription | None:
        return None

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        if instance.gpu is not None:
            raise Internal("GPU instances not supported")
        for source, output in enumerate(config.outputs):
            if source >= len(config.inputs) or (config.inputs[source].datatype != output.datatype):
                raise InvalidArgument(
                    f"output '{output.name}' of identity model '{config.name}' has no input at its "
                    "position with the same data type"
                )
            self._sources[output.name] = source
        self._delay_seconds = _milliseconds(config, "execute_delay_ms") / 1000

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Array]:
        if self._delay_seconds:
            time.sleep(self._delay_seconds)
        answers = [inputs[self._sources[name]] for name in outputs]
        if any(answer is None for answer in answers):
            raise Internal("an identity model can not answer from an input that was not given")
        return [answer for answer in answers if answer is not None]

    def unload(self) -> None:
        self._sources = {}


def _milliseconds(config: ModelConfig, key: str) -> float:
    text = config.parameters.get(key, "0")
    try:
        return max(float(text), 0.0)
    except ValueError:
        raise InvalidArgument(
            f"parameter '{key}' of model '{config.name}' must be a number, got '{text}'"
        ) from None
