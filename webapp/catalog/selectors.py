"""Reads of models, versions and the names that point at them."""

from typing import Any

from django.db.models import Count, QuerySet

from webapp.catalog.choices import CheckStatus, Stage
from webapp.catalog.inspection.names import CHECKS
from webapp.catalog.models import Alias, InferenceModel, ModelVersion, Promotion, StagePointer
from webapp.core.errors import NotFound


def model_get(*, name: str) -> InferenceModel:
    model = InferenceModel.objects.filter(name=name).first()
    if model is None:
        raise NotFound(
            f"There is no model {name!r}.",
            reason="MODEL_NOT_FOUND",
            help_text="GET /models lists them; POST /models makes one.",
        )
    return model


def model_list() -> QuerySet[InferenceModel]:
    return (
        InferenceModel.objects.select_related("created_by")
        .prefetch_related("stages__version", "aliases__version")
        .annotate(version_count=Count("versions"))
        .order_by("name")
    )


def version_get(*, name: str, number: int) -> ModelVersion:
    version = (
        ModelVersion.objects.select_related("model", "created_by", "inspection")
        .filter(model__name=name, number=number)
        .first()
    )
    if version is None:
        model_get(name=name)  # the better message when the model is the problem
        raise NotFound(
            f"Model {name!r} has no version {number}.",
            reason="VERSION_NOT_FOUND",
            help_text=f"GET /models/{name}/versions lists them.",
        )
    return version


def version_list(*, model: InferenceModel) -> QuerySet[ModelVersion]:
    return (
        ModelVersion.objects.filter(model=model)
        .select_related("model", "created_by", "inspection")
        .order_by("-number")
    )


def stage_version(*, model: InferenceModel, stage: str) -> ModelVersion | None:
    pointer = (
        StagePointer.objects.select_related("version").filter(model=model, stage=stage).first()
    )
    return pointer.version if pointer else None


def stage_map(*, model: InferenceModel) -> dict[str, int | None]:
    """Every stage, also those that point at nothing."""
    numbers = {row.stage: row.version.number for row in model.stages.select_related("version")}
    return {stage: numbers.get(stage) for stage in Stage.values}


def alias_map(*, model: InferenceModel) -> dict[str, int]:
    rows = Alias.objects.filter(model=model).select_related("version").order_by("name")
    return {row.name: row.version.number for row in rows}


def alias_get(*, model: InferenceModel, name: str) -> Alias:
    alias = Alias.objects.filter(model=model, name=name).select_related("version", "model").first()
    if alias is None:
        raise NotFound(
            f"Model {model.name!r} has no alias {name!r}.",
            reason="ALIAS_NOT_FOUND",
            help_text=f"Set it with PUT /models/{model.name}/aliases/{name}.",
        )
    return alias


def promotion_list(*, model: InferenceModel) -> QuerySet[Promotion]:
    return Promotion.objects.filter(model=model).select_related(
        "from_version", "to_version", "by", "model"
    )


def version_uses(*, version: ModelVersion) -> list[str]:
    """What still needs the version, in words; empty when it may go."""
    uses = [f"it is the {row.stage} version" for row in _pointers(version)]
    uses += [f"alias {row.name} points at it" for row in version.aliases.all()]
    uses += [
        f"it is deployed on {row.runtime.name}"
        for row in version.deployments.filter(wanted=True).select_related("runtime")
    ]
    return uses


def deployed_versions(*, model: InferenceModel) -> list[int]:
    rows = ModelVersion.objects.filter(model=model, deployments__wanted=True)
    return sorted(set(rows.values_list("number", flat=True)))


def rejection_of(*, version: ModelVersion) -> dict[str, str] | None:
    """The check that failed, with what to do; None when none did."""
    return next((row for row in version.checks if row["status"] == CheckStatus.FAILED), None)


def check_rows(*, version: ModelVersion) -> list[dict[str, Any]]:
    """All checks in order for the page: done, running, or still waiting."""
    done = {row["name"]: row for row in version.checks}
    running = version.metadata.get("checking", "")
    rows: list[dict[str, Any]] = []
    for kind in CHECKS:
        row = done.get(kind.name)
        status = row["status"] if row else ("running" if kind.name == running else "waiting")
        rows.append(
            {
                "name": kind.name,
                "title": kind.title,
                "proves": kind.proves,
                "status": status,
                "detail": row["detail"] if row else "",
                "fix": row["fix"] if row else "",
            }
        )
    return rows


def _pointers(version: ModelVersion) -> QuerySet[StagePointer]:
    return StagePointer.objects.filter(version=version)
