"""The folder one inspection may touch: the uploaded bytes go in by hard link, nothing comes out by itself."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from inference_runtime.spec.layout import resolve_inside
from webapp.uploads.chunk_store import payload_path, samples_path


def prepare(*, version_id: int, token: int, upload_id: str | None) -> Path:
    """A fresh folder for one attempt; what earlier attempts left behind is removed first."""
    clear(version_id=version_id)
    work = resolve_inside(_root(), f"{version_id}-{token}")
    work.mkdir(parents=True)
    if upload_id is not None:
        _link(payload_path(upload_id), work / "payload")
        if samples_path(upload_id).exists():
            _link(samples_path(upload_id), work / "samples")
    return work


def clear(*, version_id: int) -> None:
    for folder in _folders(version_id):
        shutil.rmtree(folder, ignore_errors=True)


def owners() -> set[int]:
    """Versions that have a folder here."""
    names = [folder.name.split("-")[0] for folder in _root().glob("*-*")]
    return {int(name) for name in names if name.isdecimal()}


def _folders(version_id: int) -> Iterator[Path]:
    return _root().glob(f"{version_id}-*")


def _root() -> Path:
    return Path(settings.QUARANTINE_DIR)


def _link(source: Path, target: Path) -> None:
    """A second name for the same bytes, so that a later attempt still has them; a copy across disks."""
    try:
        os.link(source, target)
    except OSError:
        if not source.exists():
            raise
        shutil.copyfile(source, target)
