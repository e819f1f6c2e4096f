"""What an isolated backend is given by the server: pickled, because it goes to the server's own child only."""

import base64
import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_runtime import pb
from inference_runtime.backends.base import ModelArtifact
from inference_runtime.spec.model_config import InstanceSpec


@dataclass(frozen=True, slots=True)
class Given:
    """`config` is a ModelConfig, or for a description the pb.ModelConfig as it is so far."""

    artifact: ModelArtifact
    config: Any
    options: Mapping[str, str]
    instance: InstanceSpec | None = None
    services: None = None  # the code of a model has none here

    def text(self) -> str:
        stream = io.BytesIO()
        _Pickler(stream).dump(self)
        return base64.b64encode(stream.getvalue()).decode()


class _Pickler(pickle.Pickler):
    """The generated messages do not know their own module."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, pb.ModelConfig):
            return _config, (value.SerializeToString(),)
        return NotImplemented


def _config(data: bytes) -> Any:
    return pb.ModelConfig.FromString(data)
