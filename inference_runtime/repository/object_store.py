"""A repository in object storage, through fsspec: listed where it lies, copied to this machine for a load."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from inference_runtime.errors import InvalidArgument
from inference_runtime.repository.model_cache import ModelCache, RemoteFile
from inference_runtime.repository.snapshot import ModelSnapshot, snapshot_of
from inference_runtime.repository.store import ModelFiles, StoreUnreachable, is_model_name
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

_MAX_OBJECTS = 1_000_000  # of one listing
_MAX_READ_BYTES = 16 * 2**20  # of a config
_PARALLEL_DOWNLOADS = 8
# A store that let somebody wait this long for nothing lets the others wait no time, for a while.
_PATIENCE_SECONDS = 2.0
_AWAY_SECONDS = 10.0
# What the file systems call the tag of a content, and the moment it was written.
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "generation", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


@dataclass(slots=True)
class _Listing:
    """A model's objects: paths below the model, and directories somebody made a marker for."""

    files: list[RemoteFile] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    refused: str = ""  # why the model can not be copied

    @property
    def snapshot(self) -> ModelSnapshot:
        return snapshot_of(
            [(file.path, file.stamp, file.size) for file in self.files], self.directories
        )


class ObjectStore:
    """`open_filesystem` gives an fsspec file system; it is called once, by the first call that needs it."""

    def __init__(
        self,
        location: str,
        path: str,
        open_filesystem: Callable[[], Any],
        cache: ModelCache,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._location = location
        self._path = path.strip("/")
        self._open = open_filesystem
        self._opened: Any = None
        self._opening = threading.Lock()
        self._cache = cache
        self._clock = clock
        self._away = (0.0, "")  # until when nobody asks again, and what came of asking

    @property
    def location(self) -> str:
        return self._location

    def names(self) -> tuple[str, ...]:
        entries = self._ask(lambda files: self._top(files))
        found = {
            PurePosixPath(entry["name"]).name
            for entry in entries
            if entry.get("type") == "directory"
        }
        return tuple(sorted(name for name in found if is_model_name(name)))

    def holds(self, name: str) -> bool:
        root = f"{self._path}/{name}"

        def anything_below(files: Any) -> bool:
            try:
                found = files.ls(root, detail=True, refresh=True)
            except FileNotFoundError:
                self._top(files)  # nothing there, or no answer?
                return False
            # What is listed of a plain file is the file itself.
            return any(
                entry["name"].strip("/") != root or entry["type"] == "directory" for entry in found
            )

        return self._ask(anything_below)

    def snapshots(self) -> Mapping[str, ModelSnapshot]:
        found = self._ask(lambda files: self._find(files, self._path))
        models: dict[str, _Listing] = {}
        for path, entry in self._below(found, self._path):
            name, _, rest = path.partition("/")
            if rest and is_model_name(name):
                _add(models.setdefault(name, _Listing()), rest, entry)
        if not models:
            self._ask(lambda files: self._top(files))  # nothing there, or no answer?
        return {name: listing.snapshot for name, listing in models.items()}

    def read(self, name: str, path: str) -> bytes | None:
        def cat(files: Any) -> bytes | None:
            try:
                content: bytes = files.cat_file(
                    f"{self._path}/{name}/{path}", end=_MAX_READ_BYTES + 1
                )
            except FileNotFoundError:
                return None
            return content

        content = self._ask(cat)
        if content is not None and len(content) > _MAX_READ_BYTES:
            raise InvalidArgument(f"'{path}' of model '{name}' is larger than {_MAX_READ_BYTES}")
        return content

    def fetch(self, name: str) -> ModelFiles:
        root = f"{self._path}/{name}"
        found = self._ask(lambda files: self._find(files, root))
        listing = _Listing()
        for path, entry in self._below(found, root):
            _add(listing, path, entry)
        if listing.refused:
            raise InvalidArgument(
                f"model '{name}' in {self._location} can not be copied: {listing.refused}"
            )
        copy = self._cache.copy(
            f"{self._location}/{name}",
            name,
            listing.files,
            listing.directories,
            lambda wanted: self._download(root, wanted),
        )
        return ModelFiles(copy.directory, listing.snapshot, copy)

    def _download(self, root: str, wanted: Sequence[tuple[RemoteFile, Path]]) -> None:
        if not wanted:
            return
        logger.info("copying %d files of %s", len(wanted), root)
        remote = [f"{root}/{file.path}" for file, _ in wanted]
        local = [str(path) for _, path in wanted]
        self._ask(
            lambda files: files.get(remote, local, batch_size=_PARALLEL_DOWNLOADS), download=True
        )

    def _top(self, files: Any) -> list[dict[str, Any]]:
        """Entries right below the root. An empty prefix is empty, a missing bucket is an error."""
        try:
            found: list[dict[str, Any]] = files.ls(self._path, detail=True, refresh=True)
        except FileNotFoundError:
            bucket = self._path.partition("/")[0]
            if bucket == self._path:
                raise
            files.ls(bucket, detail=False, refresh=True)
            return []
        return found

    def _find(self, files: Any, root: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = files.find(root, detail=True, withdirs=True)
        if len(found) > _MAX_OBJECTS:
            raise OSError(f"{root} holds more than {_MAX_OBJECTS} objects")
        return found

    def _below(
        self, found: Mapping[str, dict[str, Any]], root: str
    ) -> Iterable[tuple[str, dict[str, Any]]]:
        prefix = f"{root}/"
        for name, entry in found.items():
            path = name.removeprefix("/")
            if path.startswith(prefix):
                yield path.removeprefix(prefix), entry

    def _ask(self, question: Callable[[Any], Answer], *, download: bool = False) -> Answer:
        """File systems raise what they like: all of it means that there is no answer now."""
        began = self._clock()
        until, why = self._away
        if began < until:
            raise StoreUnreachable(why)
        try:
            with self._opening:
                if self._opened is None:
                    self._opened = self._open()
            self._opened.invalidate_cache()
            return question(self._opened)
        except Exception as error:
            why = f"model repository {self._location} can not be read: {str(error) or repr(error)}"
            now = self._clock()
            if not download and now - began > _PATIENCE_SECONDS:
                self._away = (now + _AWAY_SECONDS, why)
            raise StoreUnreachable(why) from error


def _add(listing: _Listing, path: str, entry: Mapping[str, Any]) -> None:
    """Whoever may write to the bucket chooses the keys: none may lead out of the copy."""
    directory = path.endswith("/") or entry.get("type") == "directory"
    path = path.removesuffix("/")
    if not path and directory:
        return  # the marker of the model itself
    try:
        resolve_inside(Path("/nowhere"), path)
    except OutsideRoot as error:
        # A directory that nobody put there follows from the names of the files in it.
        if not directory:
            listing.refused = str(error)
        return
    if directory:
        listing.directories.append(path)
    else:
        listing.files.append(RemoteFile(path, _stamp(entry), int(entry.get("size") or 0)))


def _stamp(entry: Mapping[str, Any]) -> str:
    tag = next((str(entry[key]) for key in _TAGS if entry.get(key)), "")
    time = next((str(entry[key]) for key in _TIMES if entry.get(key)), "")
    return f"{tag} {time}"
