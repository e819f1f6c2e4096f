"""Live events of versions, topic `version:<model>/<number>`: state and checks, whole each time."""

from typing import Any

from django.contrib.auth.models import AbstractUser

from webapp.catalog.models import ModelVersion
from webapp.core.events import publish


def version_tell(*, version: ModelVersion) -> None:
    publish(topic=f"version:{version.model.name}/{version.number}", data=_frame(version))


def version_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    model_name, _, number = name.rpartition("/")
    if not number.isdecimal():
        return None
    version = (
        ModelVersion.objects.select_related("model")
        .filter(model__name=model_name, number=int(number))
        .first()
    )
    return _frame(version) if version is not None else None


def _frame(version: ModelVersion) -> dict[str, Any]:
    return {
        "model": version.model.name,
        "version": version.number,
        "state": version.state,
        "checks": version.checks,
        "checking": version.metadata.get("checking", ""),
    }
