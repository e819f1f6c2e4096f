"""What the inspection child is told about a version, and how much it may use."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from webapp.catalog.choices import Stage
from webapp.catalog.models import ModelVersion
from webapp.catalog.repository_writer import version_folder
from webapp.catalog.selectors import stage_version
from webapp.uploads.models import UploadPart

_MOST_FILES = 2000
_MOST_RATIO = 200


@dataclass(frozen=True, slots=True)
class CheckLimits:
    @property
    def wall_seconds(self) -> int:
        return int(settings.CHECK_SECONDS)

    @property
    def as_json(self) -> dict[str, int]:
        return {
            "max_upload_bytes": settings.MAX_UPLOAD_BYTES,
            "max_unpacked_bytes": settings.MAX_UNPACKED_BYTES,
            "max_files": _MOST_FILES,
            "max_ratio": _MOST_RATIO,
            "memory_bytes": settings.CHECK_MEMORY_BYTES,
            "cpu_seconds": settings.CHECK_SECONDS,
        }


CHECK_LIMITS = CheckLimits()


def assignment_for(*, version: ModelVersion, recheck: bool) -> dict[str, Any]:
    upload = None if recheck else version.upload
    return {
        "model_name": version.model.name,
        "source_name": version.source_name,
        "declared_size_bytes": upload.size_bytes if upload else version.size_bytes,
        "declared_sha256": upload.sha256 if upload else "",
        "parts": [
            {"size_bytes": part.size_bytes, "sha256": part.sha256}
            for part in (UploadPart.objects.filter(upload=upload) if upload else ())
        ],
        "config_text": version.config_text,
        "samples_name": upload.samples_name if upload else "",
        "published_folder": str(_published(version)) if recheck else "",
        "published": {row["name"]: row["sha256"] for row in version.files},
        "production": _production(version),
        "limits": CHECK_LIMITS.as_json,
    }


def _published(version: ModelVersion) -> Any:
    return version_folder(model_name=version.model.name, number=version.number)


def _production(version: ModelVersion) -> dict[str, Any] | None:
    current = stage_version(model=version.model, stage=Stage.PRODUCTION)
    if current is None or current.pk == version.pk:
        return None
    return {"version": current.number, "inputs": current.inputs, "outputs": current.outputs}
