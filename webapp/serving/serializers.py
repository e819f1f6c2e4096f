"""Runtimes, placements and serving configs as the API shows them."""

from typing import Any

from webapp.catalog.models import InferenceModel
from webapp.jobs.models import Job
from webapp.serving.config_values import FIELDS, ServingValues
from webapp.serving.models import LoadedConfig, Runtime, ServingConfig
from webapp.serving.selectors import (
    config_in_force,
    serving_config_row,
    values_asked,
    values_in_force,
)
from webapp.serving.shapes import iso, placement_body, runtime_body

__all__ = [
    "placement_body",
    "plan_body",
    "runtime_body",
    "runtime_tag",
    "serving_config_body",
    "serving_config_tag",
]


def runtime_tag(runtime: Runtime) -> dict[str, Any]:
    """What an ETag of a runtime is made of: what people set, not what a probe saw."""
    return {
        "name": runtime.name,
        "http_address": runtime.http_address,
        "grpc_address": runtime.grpc_address,
        "metrics_address": runtime.metrics_address,
    }


def serving_config_tag(row: ServingConfig | None, model: InferenceModel) -> dict[str, Any]:
    """What an ETag of the serving config is made of: the edit, not how it fared."""
    return {"model": model.name, "revision": row.revision if row is not None else 0}


def serving_config_body(model: InferenceModel) -> dict[str, Any]:
    row = serving_config_row(model=model)
    in_force = values_in_force(model=model)
    return {
        "model": model.name,
        "revision": row.revision if row is not None else 0,
        "settings": values_asked(model=model).to_json(),
        "defaults": ServingValues().to_json(),
        "editable": list(FIELDS),
        "in_force": in_force.to_json() if in_force is not None else None,
        "in_force_revision": row.applied_revision if row is not None else 0,
        "error": row.error if row is not None else "",
        "config": config_in_force(model=model),
        "runtimes": [
            {
                "runtime": one.runtime.name,
                "versions": one.versions,
                "loaded_at": iso(one.loaded_at),
                "error": one.error,
            }
            for one in LoadedConfig.objects.filter(model=model).select_related("runtime")
        ],
    }


def plan_body(job: Job) -> dict[str, Any]:
    """What a dry run would have asked for."""
    return {"kind": job.kind, "target": job.target, "parameters": job.parameters}
