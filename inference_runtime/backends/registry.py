"""Backend name → "module:Class", imported when first asked for."""

import importlib
from typing import cast

from inference_runtime.backends.base import BackendFactory
from inference_runtime.errors import InvalidArgument

BACKENDS: dict[str, str] = {
    "identity": "inference_runtime.backends.identity_backend:IdentityBackend",
    "onnxruntime": "inference_runtime.backends.onnxruntime_backend:OnnxRuntimeBackend",
    "python": "inference_runtime.backends.python.backend:PythonBackend",
    "repeat": "inference_runtime.backends.repeat_backend:RepeatBackend",
}


def backend_named(name: str) -> BackendFactory:
    path = BACKENDS.get(name)
    if path is None:
        raise InvalidArgument(
            f"unable to find backend library for backend '{name}', "
            "try specifying runtime on the model configuration."
        )
    module, attribute = path.split(":")
    return cast(BackendFactory, getattr(importlib.import_module(module), attribute))
