"""Loads one instance of a model the way a server does, without a server."""

import asyncio
from pathlib import Path
from typing import cast

from inference_runtime.backends.base import Backend, BackendServices
from inference_runtime.lifecycle.version_config import (
    BackendSettings,
    PreparedVersion,
    prepare_version,
)
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.repository.store import DirectoryStore
from inference_runtime.spec.inference_port import InferencePort
from tests.onnx_models import write_model


def prepare(
    path: Path, model=None, config: str | None = None, settings: BackendSettings | None = None
) -> PreparedVersion:
    if model is not None:
        write_model(path, "m", model, config=config)
    else:
        (path / "m" / "1").mkdir(parents=True)
        (path / "m" / "config.pbtxt").write_text(config or "")
    polled = ModelRepository([DirectoryStore(path)]).poll("m")
    return prepare_version(polled, 1, settings or BackendSettings())


def start(prepared: PreparedVersion) -> Backend:
    loop = asyncio.new_event_loop()
    loop.close()  # an array backend asks nothing of the server
    backend = cast(
        Backend, prepared.factory(prepared.options, BackendServices(loop, InferencePort()))
    )
    backend.load(prepared.artifact, prepared.config, next(prepared.config.instances()))
    return backend
