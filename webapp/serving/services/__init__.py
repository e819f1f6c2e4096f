"""Writes of serving, by noun."""

from webapp.serving.services.configs import (
    ConfigPreview,
    serving_config_lost,
    serving_config_preview,
    serving_config_run,
    serving_config_set,
)
from webapp.serving.services.deploying import (
    ALL,
    deployment_lost,
    deployment_request,
    deployment_run,
)
from webapp.serving.services.probing import (
    reconcile_request,
    reconcile_run,
    runtime_probe,
    runtime_reconcile,
    runtimes_probe,
)
from webapp.serving.services.runtimes import (
    runtime_ensure_embedded,
    runtime_register,
    runtime_remove,
    runtime_update,
)
from webapp.serving.services.traffic import traffic_clear, traffic_set
from webapp.serving.services.traffic_push import (
    PushOutcome,
    traffic_catch_up,
    traffic_push,
    traffic_unreached,
)
from webapp.serving.services.undeploying import deployment_remove, undeployment_run

__all__ = [
    "ALL",
    "ConfigPreview",
    "PushOutcome",
    "deployment_lost",
    "deployment_remove",
    "deployment_request",
    "deployment_run",
    "reconcile_request",
    "reconcile_run",
    "runtime_ensure_embedded",
    "runtime_probe",
    "runtime_reconcile",
    "runtime_register",
    "runtime_remove",
    "runtime_update",
    "runtimes_probe",
    "serving_config_lost",
    "serving_config_preview",
    "serving_config_run",
    "serving_config_set",
    "traffic_catch_up",
    "traffic_clear",
    "traffic_push",
    "traffic_set",
    "traffic_unreached",
    "undeployment_run",
]
