"""Model repositories: which models their directories hold, and what one of them is at this moment."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.snapshot import ModelSnapshot, take_snapshot
from inference_runtime.spec.config_defaults import fill_identity
from inference_runtime.spec.config_rules import check_identity, check_ports
from inference_runtime.spec.config_text import config_from_json, config_from_text
from inference_runtime.spec.ensemble import read_ensemble
from inference_runtime.spec.layout import (
    CONFIG_FILE,
    CONFIGS_DIRECTORY,
    is_plain_name,
    version_directories,
)
from inference_runtime.spec.version_policy import chosen_versions, missing_versions

logger = logging.getLogger(__name__)

DUPLICATE = "model appears in two or more repositories"
_HIDDEN = "."  # staging directories of whoever publishes; renamed when complete


@dataclass(frozen=True, slots=True, eq=False)
class PolledModel:
    """A model as one look found it: ready to be loaded, or compared with what is loaded."""

    name: str
    directory: Path
    proto: Any  # pb.ModelConfig, with name, backend and version policy settled
    versions: tuple[int, ...]  # chosen by the policy, ascending
    snapshot: ModelSnapshot
    override: LoadOverride | None = None


class ModelRepository:
    def __init__(
        self, roots: Sequence[Path], *, config_name: str = "", require_complete: bool = False
    ) -> None:
        self._roots = tuple(roots)
        self._config_name = config_name
        self._require_complete = require_complete  # auto-completion is off

    def missing_roots(self) -> tuple[Path, ...]:
        return tuple(root for root in self._roots if not root.is_dir())

    def names(self) -> dict[str, bool]:
        """Every model directory there is now → whether it is in several repositories; sorted."""
        found: dict[str, bool] = {}
        for root in self._roots:
            if not root.is_dir():
                continue
            for entry in root.iterdir():
                if entry.is_dir() and not entry.name.startswith(_HIDDEN):
                    found[entry.name] = entry.name in found
        return dict(sorted(found.items()))

    def directory(self, name: str) -> Path:
        if not is_plain_name(name) or name.startswith(_HIDDEN):
            raise InvalidArgument(f"'{name}' can not be the name of a model directory")
        # The name is matched against what is there, never joined to a path unseen.
        found = [root / name for root in self._roots if (root / name).is_dir()]
        if not found:
            raise InvalidArgument(f"model '{name}' not found in any model repository")
        if len(found) > 1:
            raise InvalidArgument(f"'{name}': {DUPLICATE}")
        return found[0]

    def snapshot(self, name: str) -> ModelSnapshot:
        return take_snapshot(self.directory(name))

    def steps(self, name: str, config_json: str | None = None) -> tuple[str, ...]:
        """Models that the ensemble of this name asks, () for another model; raises as `poll` does."""
        override = LoadOverride(config_json, None) if config_json is not None else None
        directory = self.directory(name) if override is None else Path()
        ensemble = read_ensemble(self._config(directory, override))
        return ensemble.model_names if ensemble is not None else ()

    def poll(self, name: str, override: LoadOverride | None = None) -> PolledModel:
        """Raises InvalidArgument when the model can not even be read; blocking."""
        directory = override.directory if override and override.directory else self.directory(name)
        snapshot = take_snapshot(directory)  # before anything is read, so no change goes unnoticed
        found = version_directories(directory)
        for remark in found.remarks:
            logger.warning("model '%s': %s", name, remark)
        proto = self._config(directory, override)
        fill_identity(proto, name, _first_version_files(directory, found.versions))
        check_identity(proto, name)
        if self._require_complete:
            check_ports(proto)
        for version in missing_versions(proto, found.versions):
            logger.warning(
                "model '%s': version %d of its version policy has no directory", name, version
            )
        return PolledModel(
            name, directory, proto, chosen_versions(proto, found.versions), snapshot, override
        )

    def _config(self, directory: Path, override: LoadOverride | None) -> pb.ModelConfig:
        if override is not None:
            return config_from_json(override.config_json)
        path = self._config_path(directory)
        if path is None:
            if self._require_complete:
                raise InvalidArgument(
                    f"failed to open text file for read {directory / CONFIG_FILE}: "
                    "No such file or directory"
                )
            return pb.ModelConfig()
        try:
            return config_from_text(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"failed to open text file for read {path}: {error}") from error

    def _config_path(self, directory: Path) -> Path | None:
        candidates = [directory / CONFIG_FILE]
        if self._config_name:
            candidates.insert(0, directory / CONFIGS_DIRECTORY / f"{self._config_name}.pbtxt")
        return next((path for path in candidates if path.is_file()), None)


def _first_version_files(directory: Path, versions: Sequence[int]) -> frozenset[str]:
    """Names in the first version directory by name, which is what tells the backend."""
    if not versions:
        return frozenset()
    first = min(versions, key=str)
    return frozenset(entry.name for entry in (directory / str(first)).iterdir())
