"""Several repositories as one: which models they hold, and what one of them is at this moment."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.repository.agents import run_agents
from inference_runtime.repository.model_cache import ModelCopy
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.snapshot import ModelSnapshot, take_snapshot
from inference_runtime.repository.store import (
    ModelFiles,
    RepositoryStore,
    StoreUnreachable,
    is_model_name,
)
from inference_runtime.spec.config_defaults import fill_identity
from inference_runtime.spec.config_rules import check_identity, check_ports
from inference_runtime.spec.config_text import config_from_json, config_from_text
from inference_runtime.spec.ensemble import EnsembleScheduling, read_ensemble
from inference_runtime.spec.layout import CONFIG_FILE, CONFIGS_DIRECTORY, version_directories
from inference_runtime.spec.model_identity import bare_name, identity, namespace_of
from inference_runtime.spec.version_policy import chosen_versions, missing_versions

logger = logging.getLogger(__name__)

DUPLICATE = "model appears in two or more repositories"


@dataclass(frozen=True, slots=True, eq=False)
class PolledModel:
    """A model as one look found it: ready to be loaded, or compared with what is loaded."""

    name: str  # its identity: with namespaces, that of its repository is part of it
    directory: Path
    proto: Any  # pb.ModelConfig, with name, backend and version policy settled
    versions: tuple[int, ...]  # chosen by the policy, ascending
    snapshot: ModelSnapshot
    source: str  # what `directory` is, or is a copy of
    override: LoadOverride | None = None
    ensemble: EnsembleScheduling | None = None  # its steps name identities
    copy: ModelCopy | None = None


@dataclass(frozen=True, slots=True)
class RepositoryLook:
    """`models`: by identity. Nothing is known of the models of `unreachable` repositories, nor of the
    `unreadable` ones, which are there."""

    models: Mapping[str, ModelSnapshot]
    unreachable: Mapping[str, str] = field(default_factory=dict)  # location → why
    unreadable: frozenset[str] = frozenset()


class ModelRepository:
    """Calls may block for as long as the slowest store takes."""

    def __init__(
        self,
        stores: Sequence[RepositoryStore],
        *,
        config_name: str = "",
        require_complete: bool = False,
        namespacing: bool = False,
    ) -> None:
        self._stores = tuple(stores)
        self._config_name = config_name
        self._require_complete = require_complete  # auto-completion is off
        self._namespacing = namespacing
        self._outages = _Outages()

    def problems(self) -> list[str]:
        """Why a repository can not be used at all."""
        found = []
        for store in self._stores:
            try:
                store.names()
            except StoreUnreachable as fault:
                found.append(fault.text)
        return found

    def names(self) -> dict[str, bool]:
        """Identity of every model there is now → whether it is in several repositories; sorted.

        Repositories that do not answer are left out.
        """
        found: dict[str, bool] = {}
        for store in self._stores:
            try:
                names = store.names()
            except StoreUnreachable as fault:
                self._outages.begin(store.location, fault.text)
                continue
            self._outages.end(store.location)
            for name in names:
                key = self._identity(store, name)
                found[key] = key in found
        return dict(sorted(found.items()))

    def look(self) -> RepositoryLook:
        """Every model there is once; one in two repositories counts as gone."""
        models: dict[str, ModelSnapshot] = {}
        duplicates: set[str] = set()
        unreadable: set[str] = set()
        unreachable: dict[str, str] = {}
        for store in self._stores:
            try:
                snapshots = store.snapshots()
            except StoreUnreachable as fault:
                unreachable[store.location] = fault.text
                self._outages.begin(store.location, fault.text)
                continue
            self._outages.end(store.location)
            for name, snapshot in snapshots.items():
                key = self._identity(store, name)
                if key in models:
                    duplicates.add(key)
                if snapshot is None:
                    unreadable.add(key)
                else:
                    models[key] = snapshot
        for key in duplicates:
            del models[key]
        return RepositoryLook(models, unreachable, frozenset(unreadable))

    def identities(self, name: str) -> list[str]:
        """What a client's load of `name` is about: with namespaces, perhaps several models."""
        if not self._namespacing or not is_model_name(name):
            return [name]
        found = [self._identity(store, name) for store in self._stores if self._holds(store, name)]
        return found or [name]

    def steps(self, name: str, config_json: str | None = None) -> tuple[str, ...]:
        """Models that the ensemble of this identity asks, () for another model; raises as `poll` does."""
        if config_json is not None:
            proto = config_from_json(config_json)
        else:
            store = self._store(name)
            proto = self._config(lambda path: store.read(bare_name(name), path), store.location)
        ensemble = self._ensemble(name, proto)
        return ensemble.model_names if ensemble is not None else ()

    def poll(self, name: str, override: LoadOverride | None = None) -> PolledModel:
        """Raises a RuntimeFault when the model can not even be read. The caller releases its copy."""
        if override is not None and override.directory is not None:
            source = str(override.directory)
            # Before anything is read, so no change goes unnoticed.
            files = ModelFiles(override.directory, take_snapshot(override.directory))
        else:
            store = self._store(name)
            source = f"{store.location}/{bare_name(name)}"
            files = store.fetch(bare_name(name))
        try:
            return self._read(name, source, files, override)
        except BaseException:
            if files.copy is not None:
                files.copy.release()
            raise

    def _read(
        self, name: str, source: str, files: ModelFiles, override: LoadOverride | None
    ) -> PolledModel:
        directory = files.directory
        found = version_directories(directory)
        for remark in found.remarks:
            logger.warning("model '%s': %s", name, remark)
        if override is not None:
            proto = config_from_json(override.config_json)
        else:
            proto = self._config(lambda path: _read_file(directory / path), str(directory))
        fill_identity(proto, bare_name(name), _first_version_files(directory, found.versions))
        check_identity(proto, bare_name(name))
        if self._require_complete:
            check_ports(proto)
        run_agents(proto, directory)
        for version in missing_versions(proto, found.versions):
            logger.warning(
                "model '%s': version %d of its version policy has no directory", name, version
            )
        return PolledModel(
            name=name,
            directory=directory,
            proto=proto,
            versions=chosen_versions(proto, found.versions),
            snapshot=files.snapshot,
            source=source,
            override=override,
            ensemble=self._ensemble(name, proto),
            copy=files.copy,
        )

    def _config(self, read: Any, place: str) -> pb.ModelConfig:
        """`read`: path below the model → content, None where there is no such file."""
        paths = [CONFIG_FILE]
        if self._config_name:
            paths.insert(0, f"{CONFIGS_DIRECTORY}/{self._config_name}.pbtxt")
        for path in paths:
            content = read(path)
            if content is None:
                continue
            try:
                return config_from_text(content.decode())
            except UnicodeDecodeError as error:
                raise InvalidArgument(
                    f"failed to open text file for read {place}/{path}: {error}"
                ) from error
        if self._require_complete:
            raise InvalidArgument(
                f"failed to open text file for read {place}/{CONFIG_FILE}: "
                "No such file or directory"
            )
        return pb.ModelConfig()

    # Which store, which namespace

    def _holds(self, store: RepositoryStore, name: str) -> bool:
        try:
            return store.holds(name)
        except StoreUnreachable as fault:
            self._outages.begin(store.location, fault.text)
            return False

    def _identity(self, store: RepositoryStore, name: str) -> str:
        return identity(store.location if self._namespacing else "", name)

    def _store(self, key: str) -> RepositoryStore:
        """That holds the model; with namespaces, the one of its own."""
        name, namespace = bare_name(key), namespace_of(key)
        if not is_model_name(name) or (namespace and not self._namespacing):
            raise InvalidArgument(f"'{key}' can not be the name of a model directory")
        found: list[RepositoryStore] = []
        silent: StoreUnreachable | None = None
        for store in self._stores:
            if namespace and store.location != namespace:
                continue
            try:
                # The name is matched against what is there, never joined to a path unseen.
                if store.holds(name):
                    found.append(store)
            except StoreUnreachable as fault:
                silent = fault
        if not found:
            raise silent or InvalidArgument(f"model '{name}' not found in any model repository")
        if len(found) > 1:
            raise InvalidArgument(f"'{name}': {DUPLICATE}")
        return found[0]

    def _ensemble(self, name: str, proto: pb.ModelConfig) -> EnsembleScheduling | None:
        """Its steps, each as the identity of the model that is meant: rather one of its own namespace."""
        ensemble = read_ensemble(proto)
        if ensemble is None or not self._namespacing:
            return ensemble
        steps = [
            replace(step, model_name=self._preferred(step.model_name, namespace_of(name)))
            for step in ensemble.steps
        ]
        return replace(ensemble, steps=tuple(steps))

    def _preferred(self, step: str, namespace: str) -> str:
        found = self.identities(step)
        mine = identity(namespace, step)
        if mine in found:
            return mine
        return (
            found[0] if len(found) == 1 else step
        )  # ambiguous: the bare name is nobody's identity


class _Outages:
    """Told once each, however often and from how many threads a store is asked meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locations: set[str] = set()

    def begin(self, location: str, why: str) -> None:
        with self._lock:
            if location not in self._locations:
                self._locations.add(location)
                logger.error("%s; its models stay as they are until it answers", why)

    def end(self, location: str) -> None:
        with self._lock:
            if location in self._locations:
                self._locations.remove(location)
                logger.info("model repository %s answers again", location)


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise InvalidArgument(f"failed to open text file for read {path}: {error}") from error


def _first_version_files(directory: Path, versions: Sequence[int]) -> frozenset[str]:
    """Names in the first version directory by name, which is what tells the backend."""
    if not versions:
        return frozenset()
    first = min(versions, key=str)
    return frozenset(entry.name for entry in (directory / str(first)).iterdir())
