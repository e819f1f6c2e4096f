"""What watchers of serving are told, and what they are shown first.

Topics of its own beside the sampler's: a frame replaces the one before it, and one made of numbers
must not wipe out one that says what is loaded where.
"""

import hashlib
import json
from typing import Any

from django.contrib.auth.models import AbstractUser

from webapp.catalog.models import InferenceModel
from webapp.core.events import publish
from webapp.serving.models import Runtime
from webapp.serving.selectors import (
    deployment_list,
    placement_of,
    placements_token,
    traffic_state,
)
from webapp.serving.shapes import placement_body, runtime_body

RUNTIME_PREFIX = "placements"  # placements:<runtime>
MODEL_PREFIX = "serving"  # serving:<model>


def tell_runtime(runtime: Runtime) -> None:
    publish(topic=f"{RUNTIME_PREFIX}:{runtime.name}", data=_runtime_data(runtime))


def tell_model(model: InferenceModel) -> None:
    publish(topic=f"{MODEL_PREFIX}:{model.name}", data=_model_data(model))


def runtime_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    runtime = Runtime.objects.filter(name=name).first()
    return _runtime_data(runtime) if runtime is not None else None


def model_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    model = InferenceModel.objects.filter(name=name).first()
    return _model_data(model) if model is not None else None


def _runtime_data(runtime: Runtime) -> dict[str, Any]:
    """Small, however much is loaded: whoever wants the placements asks for them."""
    return {"state": placements_token(runtime=runtime)} | runtime_body(runtime)


def _model_data(model: InferenceModel) -> dict[str, Any]:
    placements = [
        placement_body(placement_of(deployment=one)) for one in deployment_list(model=model)
    ]
    traffic = traffic_state(model=model)
    return {
        "state": _digest([placements, traffic]),
        "model": model.name,
        "placements": placements,
        "traffic": traffic,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
