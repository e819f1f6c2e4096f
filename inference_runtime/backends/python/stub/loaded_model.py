"""Imports a model file the way models expect: helpers beside it and in the model's directory."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from inference_runtime.backends.python.stub import triton_python_backend_utils

CLASS_NAME = "TritonPythonModel"


class NoModel(Exception):
    """The file is not what a model's file has to be; the text says how."""


def model_class(file: Path, version_directory: Path, model_directory: Path) -> Any:
    """Raises NoModel, and whatever the file raises."""
    # The repository is its owner's: compiled files in it would look like a change of the model.
    sys.dont_write_bytecode = True
    sys.modules["triton_python_backend_utils"] = triton_python_backend_utils
    sys.path += [str(version_directory), str(model_directory)]
    name = f"{version_directory.name}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise NoModel(f"'{file}' can not be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, CLASS_NAME):
        raise NoModel(f"Python model file '{file}' does not define the class {CLASS_NAME}")
    return getattr(module, CLASS_NAME)
