"""Puts versions into the model repository and takes them out: staged aside, then one rename.

A runtime that reads the repository sees a version whole or not at all. Staging lies outside the
repository (same file system), so that no runtime takes it for a model.
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from inference_runtime.spec.layout import CONFIG_FILE, resolve_inside

_BLOCK = 1024 * 1024
_FILE_MODE = 0o444
_FOLDER_MODE = 0o755


class UnsafeContent(Exception):
    """What was checked is not what lies there now."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A version's folder, hashed and on disk for good, one rename away from the repository."""

    folder: Path
    files: list[dict[str, Any]]
    size_bytes: int
    digest: str


def version_folder(*, model_name: str, number: int) -> Path:
    return resolve_inside(_repository(), f"{model_name}/{number}")


def version_stage(*, content: Path, model_name: str, number: int, token: int) -> Staged:
    folder = resolve_inside(_staging(), f"{model_name}--{number}--{token}")
    _staging().mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    content.rename(folder)
    files = [_seal(path, folder) for path in _plain_files(folder)]
    for parent in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        parent.chmod(_FOLDER_MODE)
        _sync(parent)
    return Staged(
        folder=folder,
        files=files,
        size_bytes=sum(row["size_bytes"] for row in files),
        digest=digest_of(files),
    )


def version_publish(*, staged: Staged, model_name: str, number: int) -> None:
    """Only for a version that is not published: a folder already there is a dead attempt's leaving."""
    target = version_folder(model_name=model_name, number=number)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        _discard(target)
    staged.folder.rename(target)
    _sync(target.parent)


def version_discard(*, staged: Staged) -> None:
    shutil.rmtree(staged.folder, ignore_errors=True)


def write_config(model_name: str, text: str) -> Path:
    """Replaces the model's config.pbtxt in one step."""
    target = resolve_inside(_repository(), f"{model_name}/{CONFIG_FILE}")
    target.parent.mkdir(parents=True, exist_ok=True)
    _staging().mkdir(parents=True, exist_ok=True)
    partial = resolve_inside(_staging(), f"{model_name}--{CONFIG_FILE}--{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)
    _sync(target.parent)
    return target


def model_discard(*, model_name: str) -> None:
    """Takes the whole model out of the repository at once, then deletes it."""
    folder = resolve_inside(_repository(), model_name)
    if folder.exists():
        _discard(folder)


def version_discard_published(*, model_name: str, number: int) -> bool:
    """Takes a version out of the repository; False when it is not there."""
    folder = version_folder(model_name=model_name, number=number)
    if not folder.is_dir():
        return False
    _discard(folder)
    return True


def staging_sweep(*, older_than_seconds: float) -> int:
    """Removes what nobody finished staging; an attempt that still works is younger."""
    removed = 0
    for entry in list(os.scandir(_staging())) if _staging().is_dir() else []:
        age = timezone.now().timestamp() - entry.stat(follow_symlinks=False).st_mtime
        if age > older_than_seconds:
            _remove(Path(entry.path))
            removed += 1
    return removed


def digest_of(files: list[dict[str, Any]]) -> str:
    """SHA-256 over the sorted `sha256  name` lines, as `sha256sum` prints them."""
    lines = sorted(f"{row['sha256']}  {row['name']}\n" for row in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _plain_files(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UnsafeContent(f"{path.relative_to(folder)} is no plain file")
        if path.is_file():
            found.append(path)
    return found


def _seal(path: Path, folder: Path) -> dict[str, Any]:
    """Hash, make read-only, force to disk."""
    path.chmod(_FILE_MODE)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
        os.fsync(file.fileno())
        size = file.tell()
    return {
        "name": str(path.relative_to(folder)),
        "size_bytes": size,
        "sha256": digest.hexdigest(),
    }


def _discard(folder: Path) -> None:
    """Out of the repository with one rename; deleting takes its time."""
    _staging().mkdir(parents=True, exist_ok=True)
    aside = resolve_inside(
        _staging(), f"removed--{folder.name}--{os.getpid()}--{os.urandom(4).hex()}"
    )
    folder.rename(aside)
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _repository() -> Path:
    return Path(settings.REPOSITORY_DIR)


def _staging() -> Path:
    return Path(settings.STAGING_DIR)
