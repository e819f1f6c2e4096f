"""Models and versions as the API shows them."""

from typing import Any

from webapp.catalog.choices import Stage
from webapp.catalog.models import Alias, InferenceModel, ModelVersion, Promotion
from webapp.catalog.selectors import rejection_of


def model_body(model: InferenceModel) -> dict[str, Any]:
    stages = {row.stage: row.version.number for row in model.stages.all()}
    return {
        "name": model.name,
        "description": model.description,
        "latest_version": model.last_version or None,
        "stages": {stage: stages.get(stage) for stage in Stage.values},
        "aliases": {row.name: row.version.number for row in model.aliases.all()},
        "created_at": model.created_at.isoformat(),
        "created_by": model.created_by.get_username() if model.created_by else None,
    }


def version_body(version: ModelVersion) -> dict[str, Any]:
    """The shape of docs/design: `variants` fills when builds exist."""
    return {
        "model": version.model.name,
        "version": version.number,
        "state": version.state,
        "checks": version.checks,
        "rejection": rejection_of(version=version) if version.state == "REJECTED" else None,
        "inputs": version.inputs,
        "outputs": version.outputs,
        "files": version.files,
        "variants": [],
        "backend": version.backend,
        "config": version.config_text,
        "metadata": {key: value for key, value in version.metadata.items() if key != "checking"},
        "size_bytes": version.size_bytes,
        "digest": version.digest,
        "filename": version.source_name,
        "note": version.note,
        "operation": version.inspection_id,
        "created_at": version.created_at.isoformat(),
        "created_by": version.created_by.get_username() if version.created_by else None,
        "published_at": version.published_at.isoformat() if version.published_at else None,
    }


def alias_body(alias: Alias) -> dict[str, Any]:
    return {
        "model": alias.model.name,
        "alias": alias.name,
        "version": alias.version.number,
        "updated_at": alias.updated_at.isoformat(),
    }


def promotion_body(promotion: Promotion) -> dict[str, Any]:
    return {
        "id": promotion.pk,
        "at": promotion.at.isoformat(),
        "model": promotion.model.name,
        "stage": promotion.stage,
        "from_version": promotion.from_version.number if promotion.from_version else None,
        "to_version": promotion.to_version.number,
        "by": promotion.by.get_username() if promotion.by else None,
        "reason": promotion.reason,
    }
