"""One model repository, wherever it lies: which models there are, what they look like, and their files."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.repository.model_cache import ModelCopy
from inference_runtime.repository.snapshot import ModelSnapshot, take_snapshot
from inference_runtime.spec.layout import OutsideRoot, is_plain_name, resolve_inside

logger = logging.getLogger(__name__)

_HIDDEN = "."  # staging directories of whoever publishes; renamed when complete


class StoreUnreachable(Unavailable):
    """The repository did not answer. That says nothing of the models in it."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files on this machine. `copy`: made for loads and to be released; None: the repository itself."""

    directory: Path
    snapshot: ModelSnapshot
    copy: ModelCopy | None = None


class RepositoryStore(Protocol):
    """All calls may block for as long as the medium takes, and raise StoreUnreachable when it does not answer."""

    @property
    def location(self) -> str:
        """As the command line has it, without secrets."""

    def names(self) -> tuple[str, ...]:
        """Of the models there are now."""

    def holds(self, name: str) -> bool: ...

    def snapshots(self) -> Mapping[str, ModelSnapshot | None]:
        """Of every model, in as few questions as the medium allows; downloads nothing. None: it is there, and can
        not be read now."""

    def read(self, name: str, path: str) -> bytes | None:
        """A small file of a model; None: there is none."""

    def fetch(self, name: str) -> ModelFiles:
        """The files, taken after the snapshot that comes with them. The caller releases the copy."""


class DirectoryStore:
    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def location(self) -> str:
        return str(self._root)

    def names(self) -> tuple[str, ...]:
        try:
            entries = [entry for entry in self._root.iterdir() if entry.is_dir()]
        except OSError as error:
            raise StoreUnreachable(f"failed to stat file {self._root}: {error.strerror}") from error
        return tuple(sorted(entry.name for entry in entries if is_model_name(entry.name)))

    def holds(self, name: str) -> bool:
        if not self._root.is_dir():
            raise StoreUnreachable(f"failed to stat file {self._root}: no such directory")
        return (self._root / name).is_dir()

    def snapshots(self) -> Mapping[str, ModelSnapshot | None]:
        found: dict[str, ModelSnapshot | None] = {}
        for name in self.names():
            try:
                found[name] = take_snapshot(self._root / name)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it went while we looked; the next look will not find it either
            except OSError as error:
                logger.warning("model '%s' can not be read now: %s", name, error)
                found[name] = None
        return found

    def read(self, name: str, path: str) -> bytes | None:
        try:
            file = resolve_inside(self._root / name, path, follow_links=True)
            return file.read_bytes() if file.is_file() else None
        except (OutsideRoot, OSError) as error:
            raise InvalidArgument(f"failed to open text file for read {path}: {error}") from error

    def fetch(self, name: str) -> ModelFiles:
        directory = self._root / name
        try:
            return ModelFiles(directory, take_snapshot(directory))
        except OSError as error:
            raise InvalidArgument(f"model '{name}' can not be read: {error}") from error


def is_model_name(name: str) -> bool:
    return is_plain_name(name) and not name.startswith(_HIDDEN)
