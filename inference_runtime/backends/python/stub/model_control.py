"""A model loads and unloads others, and asks whether they are ready."""

from __future__ import annotations

import base64
from typing import Any

from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.stub.link import PROCESS


def load_model(model_name: str, config: str = "", files: dict[str, bytes] | None = None) -> None:
    """Returns when it is loaded."""
    encoded = {key: base64.b64encode(data).decode() for key, data in (files or {}).items()}
    _ask("Failed to load model: ", "load_model", model=model_name, config=config, files=encoded)


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Returns before it is gone."""
    _ask(
        "Failed to unload model: ",
        "unload_model",
        model=model_name,
        unload_dependents=bool(unload_dependents),
    )


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    return bool(
        _ask(
            "Failed to check model readiness: ",
            "model_ready",
            model=model_name,
            version=str(model_version),
        )
    )


def _ask(prefix: str, what: str, **details: Any) -> Any:
    if PROCESS.phase in ("auto_complete_config", "finalize"):
        raise TritonModelException(f"{prefix}model control is not possible in {PROCESS.phase}")
    try:
        return PROCESS.link.ask(what, **details)
    except TritonModelException as error:
        raise TritonModelException(f"{prefix}{error}") from None
