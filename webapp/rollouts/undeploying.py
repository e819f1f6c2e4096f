"""Why a version must stay loaded: a rollout may need it any moment."""

from django.db.models import Q

from webapp.catalog.models import ModelVersion
from webapp.rollouts.selectors import rollouts_active


def removal_objection(version: ModelVersion) -> str:
    """ "" when no active rollout stands on the version."""
    rollout = rollouts_active().filter(Q(stable=version) | Q(canary=version)).first()
    if rollout is None:
        return ""
    role = "canary" if rollout.canary_id == version.pk else "stable version"
    return (
        f"it is the {role} of rollout {rollout.id}, which is {rollout.state}; "
        "wait for its end, or abort it"
    )
