"""Where the bytes of uploads lie, and how they get there: at their offset, in constant memory."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from inference_runtime.spec.layout import resolve_inside

_BLOCK = 1024 * 1024


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class WrongLength(Exception):
    """The body does not have the length that was announced."""

    def __init__(self, received: int, *, more: bool) -> None:
        super().__init__(received)
        self.received = received
        self.more = more  # it went on after `received` bytes


class WrongDigest(Exception):
    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def upload_folder(upload_id: str) -> Path:
    return resolve_inside(Path(settings.UPLOAD_DIR), upload_id)


def payload_path(upload_id: str) -> Path:
    return upload_folder(upload_id) / "payload"


def samples_path(upload_id: str) -> Path:
    return upload_folder(upload_id) / "samples"


def _aside_path(upload_id: str) -> Path:
    return upload_folder(upload_id) / "again"


def prepare(upload_id: str, size_bytes: int) -> None:
    """An empty file of the full length; it takes disk space only where parts were written."""
    upload_folder(upload_id).mkdir(parents=True)
    with payload_path(upload_id).open("xb") as file:
        file.truncate(size_bytes)


def write_part(
    upload_id: str, source: Readable, *, offset: int, length: int, expected_sha256: str
) -> str:
    """Writes exactly `length` bytes at `offset` and returns their SHA-256. Raises on any difference;
    the bytes at that place are void then. Call inside `exclusive`."""
    with payload_path(upload_id).open("r+b") as file:
        file.seek(offset)
        return _copy_checked(source, file, length, expected_sha256)


def write_aside(upload_id: str, source: Readable, *, length: int, expected_sha256: str) -> str:
    """Like `write_part`, but beside the payload, which keeps the bytes it has until `take_aside`."""
    aside = _aside_path(upload_id)
    try:
        with aside.open("wb") as file:
            return _copy_checked(source, file, length, expected_sha256)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def take_aside(upload_id: str, *, offset: int) -> None:
    aside = _aside_path(upload_id)
    with aside.open("rb") as source, payload_path(upload_id).open("r+b") as file:
        file.seek(offset)
        shutil.copyfileobj(source, file, _BLOCK)
    aside.unlink()


@contextmanager
def exclusive(upload_id: str) -> Iterator[None]:
    """One writer at a time per upload, between threads and processes: two tabs may send one part."""
    with (upload_folder(upload_id) / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def adopt_file(target: Path, source: "UploadedFile[Any]") -> None:
    """Moves what a multipart form brought to `target`; copies only across file systems."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = getattr(source, "temporary_file_path", None)
    if temporary is not None:
        shutil.move(temporary(), target)
        return
    with target.open("xb") as file:
        for block in source.chunks(_BLOCK):
            file.write(block)


def write_small(target: Path, source: Readable, *, limit: int) -> int:
    """A whole small file; raises WrongLength when it is larger than `limit`."""
    partial = target.with_name(target.name + ".partial")
    written = 0
    with partial.open("wb") as file:
        while block := source.read(_BLOCK):
            written += len(block)
            if written > limit:
                break
            file.write(block)
    if written > limit:
        partial.unlink()
        raise WrongLength(limit, more=True)
    partial.replace(target)
    return written


def remove(upload_id: str) -> None:
    """All bytes of an upload. Safe to repeat."""
    folder = upload_folder(upload_id)
    aside = folder.with_name(f"{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(aside)  # at once out of sight, even while a late part holds the lock
    shutil.rmtree(aside, ignore_errors=True)


def free_bytes() -> int:
    folder = Path(settings.UPLOAD_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(folder).free


def folders() -> Iterator[tuple[str, float]]:
    """Names below the upload folder and when each last changed (seconds since the epoch)."""
    root = Path(settings.UPLOAD_DIR)
    if not root.is_dir():
        return
    for entry in os.scandir(root):
        if entry.is_dir(follow_symlinks=False):
            yield entry.name, entry.stat(follow_symlinks=False).st_mtime


def remove_stray_files(*, older_than: float) -> int:
    """What forms had spooled when a web process was killed."""
    removed = 0
    folder = Path(settings.FILE_UPLOAD_TEMP_DIR)
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < older_than:
            Path(entry.path).unlink(missing_ok=True)
            removed += 1
    return removed


def _copy_checked(source: Readable, file: IO[bytes], length: int, expected_sha256: str) -> str:
    digest = hashlib.sha256()
    _copy(source, length, digest.update, file.write)
    found = digest.hexdigest()
    if expected_sha256 and expected_sha256 != found:
        raise WrongDigest(found)
    return found


def _copy(
    source: Readable,
    length: int,
    digest: Callable[[bytes], object],
    write: Callable[[bytes], object],
) -> None:
    left = length
    while left:
        block = source.read(min(_BLOCK, left))
        if not block:
            raise WrongLength(length - left, more=False)
        digest(block)
        write(block)
        left -= len(block)
    if source.read(1):
        raise WrongLength(length, more=True)
