"""Production is the version that clients get: the stage follows the traffic, it does not move it."""

from webapp.catalog.choices import Stage
from webapp.catalog.hooks import Objection
from webapp.catalog.models import ModelVersion
from webapp.serving.selectors import canary_version, stable_number


def production_objection(stage: str, version: ModelVersion) -> Objection | None:
    model, number = version.model, version.number
    if stage != Stage.PRODUCTION or stable_number(model=model) == number:
        return None
    canary = canary_version(model=model)
    if canary is not None:
        is_it = "it is the canary" if canary == number else f"version {canary} is on trial"
        return Objection(
            "ROLLOUT_ACTIVE",
            f"{version} cannot be production while {is_it}: production moves when a rollout is "
            "promoted.",
            "Promote or abort the rollout.",
        )
    return Objection(
        "VERSION_HAS_NO_TRAFFIC",
        f"{version} has no traffic, so it is not what clients would get from production.",
        f'Start a rollout: POST /api/v1/models/{model.name}/rollouts {{"version": {number}}}; or give '
        f"it all traffic at once: POST /api/v1/models/{model.name}/versions/{number}:deploy "
        '{"traffic": "all"}. Both move production too.',
    )
