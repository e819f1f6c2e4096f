"""Uploads through the API, carries the checks out at once, and looks at the disk."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx

from tests.world import World
from webapp.catalog.models import ModelVersion
from webapp.catalog.services import version_inspect
from workers.base import run_job


def point_settings_at(settings, root: Path) -> None:
    settings.HOME = root
    settings.REPOSITORY_DIR = root / "repository"
    settings.UPLOAD_DIR = root / "uploads"
    settings.QUARANTINE_DIR = root / "quarantine"
    settings.STAGING_DIR = root / "staging"
    settings.FILE_UPLOAD_TEMP_DIR = root / "incoming"
    settings.FILE_UPLOAD_TEMP_DIR.mkdir(exist_ok=True)


@dataclass
class Publishing:
    world: World
    home: Path

    def send(self, model: str, content: bytes, name: str = "model.onnx", **fields: Any):
        """The one-shot call, answered; the checks have not run yet."""
        api = self.world.api_client()
        api.post("/api/v1/models", {"name": model})
        return api.post(
            f"/api/v1/models/{model}/versions",
            {"file": named_file(name, content), **fields},
            format="multipart",
        )

    def upload(
        self, model: str, content: bytes, name: str = "model.onnx", **fields: Any
    ) -> ModelVersion:
        """Sent and checked."""
        response = self.send(model, content, name, **fields)
        assert response.status_code == 202, response.content
        return self.check(response.json())

    def check(self, operation: Mapping[str, Any]) -> ModelVersion:
        run_job(operation["id"], lambda claim: version_inspect(claim=claim))
        number = int(operation["target"].rsplit("/", 1)[1])
        name = operation["target"].split("/")[4]
        return ModelVersion.objects.get(model__name=name, number=number)

    def bytes_kept(self) -> int:
        """What uploads, quarantine and staging still hold."""
        folders = ("uploads", "quarantine", "staging", "incoming")
        return sum(
            path.lstat().st_size
            for folder in folders
            for path in (self.home / folder).rglob("*")
            if not path.is_dir()
        )

    def published(self) -> list[str]:
        repository = self.home / "repository"
        return sorted(
            str(path.relative_to(repository)) for path in repository.rglob("*") if path.is_file()
        )

    def assert_rejected(self, version: ModelVersion, check: str, *words: str) -> None:
        """Refused by that check, with a sentence and a fix; nothing published, nothing kept."""
        failed = {row["name"]: row for row in version.checks if row["status"] == "failed"}
        assert version.state == "REJECTED", version.checks
        assert list(failed) == [check], version.checks
        said = f"{failed[check]['detail']} {failed[check]['fix']}"
        for word in words:
            assert word in said
        assert failed[check]["fix"]
        assert self.published() == []
        assert self.bytes_kept() == 0
        assert version.inspection.state == "FAILED"
        assert version.inspection.error["reason"] == "VERSION_REJECTED"
        assert version.inspection.error["fix"]


def named_file(name: str, content: bytes) -> io.BytesIO:
    file = io.BytesIO(content)
    file.name = name
    return file


def onnx_bytes(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString()


def zip_of(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_of(entries: Mapping[str, bytes], *, mode: str = "w:gz", extra=()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.TarFile.open(fileobj=buffer, mode=cast(Any, mode)) as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return buffer.getvalue()


def checks_by_name(version: ModelVersion) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in version.checks}
