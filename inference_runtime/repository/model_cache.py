"""Local copies of models that lie elsewhere: one directory per state of a model, shared by the loads of it.

A copy appears whole or not at all, takes over by hard link what an older copy of the same model has
already, and is removed with its last user. The sum of all copies has a bound.
"""

import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inference_runtime.errors import InvalidArgument, Unavailable

DEFAULT_MAX_BYTES = 100 * 2**30
_TOKEN = re.compile(r"\.?[0-9a-f]{16}")  # with a dot: not whole yet


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """Two files with the same stamp and size have the same content."""

    path: str  # below the model, checked by whoever lists
    stamp: str
    size: int


Download = Callable[[Sequence[tuple[RemoteFile, Path]]], None]


@dataclass(frozen=True, slots=True)
class _Content:
    files: Mapping[str, RemoteFile]
    directories: frozenset[str]  # those that may have no file in them


class ModelCopy:
    """Files of one state of a model; `hold` and `release` from any thread."""

    def __init__(self, cache: "ModelCache", directory: Path, content: "_Content"):
        self._cache = cache
        self.directory = directory
        self.content = content
        self.users = 1

    def hold(self) -> "ModelCopy":
        with self._cache.lock:
            self.users += 1
        return self

    def release(self) -> None:
        """Blocking with the last user: the files are removed."""
        self._cache.release(self)


class ModelCache:
    def __init__(self, directory: Path | None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """What an earlier process left in `directory` is removed; None: a temporary one."""
        self._directory = directory
        self._max_bytes = max_bytes
        self._made: Path | None = None
        self.lock = threading.Lock()
        self._copies: dict[str, ModelCopy] = {}  # the newest of every model, by its source
        self._reserved = 0  # bytes of copies that are being made

    def copy(
        self,
        source: str,
        name: str,
        files: Collection[RemoteFile],
        directories: Collection[str],
        download: Download,
    ) -> ModelCopy:
        """Raises what `download` raises; Unavailable when the copies would outgrow their bound."""
        wanted = _Content({file.path: file for file in files}, frozenset(directories))
        with self.lock:
            newest = self._copies.get(source)
            if newest is not None:
                newest.users += 1  # while its files are linked
                if newest.content == wanted:
                    return newest
        try:
            copy = self._make(name, wanted, newest, download)
        finally:
            if newest is not None:
                newest.release()
        with self.lock:
            self._copies[source] = copy
        return copy

    def release(self, copy: ModelCopy) -> None:
        with self.lock:
            copy.users -= 1
            if copy.users:
                return
            for source in [key for key, newest in self._copies.items() if newest is copy]:
                del self._copies[source]
        shutil.rmtree(copy.directory.parent, ignore_errors=True)

    def close(self) -> None:
        if self._made is not None:
            _remove_copies(self._made)
            with suppress(OSError):  # somebody keeps other things there
                self._made.rmdir()

    def _make(
        self,
        name: str,
        wanted: _Content,
        older: ModelCopy | None,
        download: Download,
    ) -> ModelCopy:
        root = self._root()
        token = secrets.token_hex(8)
        staging, final = root / f".{token}", root / token
        known = older.content.files if older is not None else {}
        missing = [file for file in wanted.files.values() if known.get(file.path) != file]
        size = sum(file.size for file in missing)
        self._reserve(root, size)
        try:
            model = staging / name
            _make_directories(model, wanted)
            if older is not None:
                for path in wanted.files.keys() - {file.path for file in missing}:
                    os.link(older.directory / path, model / path)
            download([(file, model / file.path) for file in missing])
            for file in missing:
                _check_size(file, model / file.path)
            staging.replace(final)
        except OSError as error:
            raise InvalidArgument(f"the files of '{name}' can not be copied: {error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            with self.lock:
                self._reserved -= size
        return ModelCopy(self, final / name, wanted)

    def _reserve(self, root: Path, size: int) -> None:
        """Counted on the disk each time, so that no sum can drift from what is there."""
        used = _bytes_below(root)
        with self.lock:
            room = min(self._max_bytes - used, shutil.disk_usage(root).free) - self._reserved
            if size > room:
                raise Unavailable(
                    f"{size} bytes of model files do not fit into the local cache {root}, which has "
                    f"room for {max(room, 0)}: see --switchyard-cache-bytes"
                )
            self._reserved += size

    def _root(self) -> Path:
        with self.lock:
            if self._made is None:
                self._made = self._fresh()
            return self._made

    def _fresh(self) -> Path:
        if self._directory is None:
            return Path(tempfile.mkdtemp(prefix="switchyard-models-"))
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_copies(self._directory)
        return self._directory


def _remove_copies(root: Path) -> None:
    """Nothing but what bears the name of a copy: the directory is the operator's choice."""
    for entry in root.iterdir():
        if _TOKEN.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def _make_directories(model: Path, wanted: _Content) -> None:
    model.mkdir(parents=True)
    for directory in wanted.directories:
        (model / directory).mkdir(parents=True, exist_ok=True)
    for path in wanted.files:
        (model / path).parent.mkdir(parents=True, exist_ok=True)


def _check_size(file: RemoteFile, path: Path) -> None:
    found = path.stat().st_size
    if found != file.size:
        raise InvalidArgument(
            f"'{file.path}' has {found} bytes and was listed with {file.size}: it changed while it "
            "was copied, try again"
        )


def _bytes_below(root: Path) -> int:
    """Files with several links count once."""
    sizes: dict[int, int] = {}
    for directory, _, names in os.walk(root):
        for name in names:
            try:
                status = (Path(directory) / name).stat()
            except OSError:
                continue  # a copy that is being removed
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())
