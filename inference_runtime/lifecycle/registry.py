"""Which versions of which models there are, in which state, and why; the sole writer of ModelState.

Event loop only. What serves is replaced in one step (`publish`), after which `on_change` tells the
router; between two loop turns nobody can see half a switch.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from inference_runtime.errors import InvalidArgument, NotFound, RuntimeFault, Unavailable
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.repository.repository import PolledModel
from inference_runtime.spec.layout import parse_version
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.spec.states import UNLOADED, ModelState, may_move


@dataclass(slots=True)
class VersionRecord:
    number: int
    state: ModelState = ModelState.UNKNOWN
    reason: str = ""
    loaded: LoadedVersion | None = None  # set while it serves
    # What served before and still finishes what it had accepted.
    leaving: list[LoadedVersion] = field(default_factory=list)


@dataclass(slots=True)
class ModelRecord:
    name: str
    versions: dict[int, VersionRecord] = field(default_factory=dict)
    applied: PolledModel | None = None  # what serves now came from this look at the files

    def serving(self) -> dict[int, LoadedVersion]:
        return {
            number: record.loaded
            for number, record in sorted(self.versions.items())
            if record.loaded is not None
        }


class ModelRegistry:
    def __init__(self, *, namespacing: bool = False) -> None:
        self._namespacing = namespacing
        self._models: dict[str, ModelRecord] = {}  # by identity
        self.on_change: Callable[[str], None] = lambda name: None

    # Reading

    def names(self) -> list[str]:
        """Identities of the models there are records of."""
        return sorted(self._models)

    def identities(self, name: str) -> list[str]:
        """What a client may mean by `name`: models that serve, else those known."""
        if not self._namespacing or name in self._models:
            return [name] if name in self._models else []
        known = [key for key in self._models if bare_name(key) == name]
        return [key for key in known if self._models[key].serving()] or known

    def record(self, name: str) -> ModelRecord | None:
        """None too where several models may be meant."""
        found = self._models.get(name)
        if found is None and self._namespacing:
            meant = self.identities(name)
            found = self._models[meant[0]] if len(meant) == 1 else None
        return found

    def serving(self, name: str) -> dict[int, LoadedVersion]:
        """Versions that are READY, ascending."""
        record = self.record(name)
        return record.serving() if record is not None else {}

    def applied(self, name: str) -> PolledModel | None:
        record = self._models.get(name)
        return record.applied if record is not None else None

    def find(self, name: str, version: str) -> LoadedVersion:
        """The READY version asked for, "" being the highest; raises the protocol's lookup faults."""
        record = self.record(name)
        if record is None:
            raise self._unknown(name)
        if version:
            return _one(record, version)
        serving = record.serving()
        if not serving:
            raise NotFound(f"Request for unknown model: '{name}' has no available versions")
        return serving[max(serving)]

    def _unknown(self, name: str) -> RuntimeFault:
        text = f"Request for unknown model: '{name}' is not found"
        if not self._namespacing:
            return NotFound(text)
        count = len(self.identities(name))
        return InvalidArgument(text) if count < 2 else ambiguous(name, count)

    def all_ready(self) -> bool:
        """Strict readiness: every version of every known model serves, or was unloaded on purpose."""
        return all(
            record.versions
            and all(
                (version.loaded is not None and version.loaded.alive)
                or (version.state is ModelState.UNAVAILABLE and version.reason == UNLOADED)
                for version in record.versions.values()
            )
            for record in self._models.values()
        )

    def all_serving(self) -> list[LoadedVersion]:
        return [loaded for record in self._models.values() for loaded in record.serving().values()]

    def at_work(self) -> list[LoadedVersion]:
        """Versions that serve, and those that finish what they had accepted."""
        return [
            loaded
            for record in self._models.values()
            for version in record.versions.values()
            for loaded in (version.loaded, *version.leaving)
            if loaded is not None
        ]

    def has_failures(self, name: str) -> bool:
        record = self._models.get(name)
        return record is not None and any(map(_failed, record.versions.values()))

    # Writing

    def begin_load(self, name: str, numbers: Iterable[int]) -> None:
        """Versions that serve keep their state: a reload does not make them less ready."""
        record = self._models.setdefault(name, ModelRecord(name))
        for number in numbers:
            version = record.versions.setdefault(number, VersionRecord(number))
            if version.state is not ModelState.READY:
                _move(version, ModelState.LOADING)

    def fail_load(self, name: str, number: int, reason: str) -> None:
        version = self._models[name].versions[number]
        if version.state is not ModelState.READY:
            _move(version, ModelState.UNAVAILABLE, reason)

    def forgive(self, name: str, wanted: Container[int]) -> None:
        """Versions that nobody wants any more, and that once did not load, keep nobody from being ready."""
        record = self._models.get(name)
        if record is not None:
            _forgive(record, wanted)

    def publish(
        self, name: str, versions: Mapping[int, LoadedVersion], applied: PolledModel
    ) -> list[LoadedVersion]:
        """Makes `versions` all that serves, at once; returns what served before and does no longer."""
        record = self._models.setdefault(name, ModelRecord(name))
        left = [loaded for loaded in record.serving().values() if loaded not in versions.values()]
        for number, loaded in versions.items():
            version = record.versions.setdefault(number, VersionRecord(number))
            if version.loaded is loaded:
                continue
            if version.loaded is not None:
                version.leaving.append(version.loaded)
            _move(version, ModelState.READY)
            version.loaded = loaded
        for number in record.serving().keys() - versions.keys():
            self._leave(record.versions[number])
        _forgive(record, versions)
        record.applied = applied
        self.on_change(name)
        return left

    def withdraw(self, name: str) -> list[LoadedVersion]:
        """Takes every version out of service; returns those that served, which may still be at work."""
        record = self._models.get(name)
        if record is None:
            return []
        left = list(record.serving().values())
        for loaded in left:
            self._leave(record.versions[loaded.number])
        _forgive(record, ())
        record.applied = None
        self.on_change(name)
        return left

    def finish_unload(self, loaded: LoadedVersion) -> None:
        """The last request of a version that left is settled and its memory is free."""
        record = self._models.get(loaded.name)
        version = record.versions.get(loaded.number) if record is not None else None
        if version is None or loaded not in version.leaving:
            return
        version.leaving.remove(loaded)
        if version.state is ModelState.UNLOADING and not version.leaving:
            _move(version, ModelState.UNAVAILABLE, UNLOADED)

    def _leave(self, version: VersionRecord) -> None:
        if version.loaded is not None:
            version.leaving.append(version.loaded)
            version.loaded = None
        _move(version, ModelState.UNLOADING)


def _move(version: VersionRecord, state: ModelState, reason: str = "") -> None:
    if not may_move(version.state, state):
        raise RuntimeError(f"{version.state} can not become {state}")
    version.state = state
    version.reason = reason


def _failed(version: VersionRecord) -> bool:
    return version.state is ModelState.UNAVAILABLE and version.reason != UNLOADED


def _forgive(record: ModelRecord, wanted: Container[int]) -> None:
    for number, version in record.versions.items():
        if number not in wanted and _failed(version):
            _move(version, ModelState.UNAVAILABLE, UNLOADED)


def _one(record: ModelRecord, text: str) -> LoadedVersion:
    number = parse_version(text)
    if number is None:
        raise InvalidArgument(
            f"failed to get model version from specified version string '{text}' (details: stol), "
            "version should be an integral value > 0"
        )
    version = record.versions.get(number)
    if version is None:
        raise NotFound(
            f"Request for unknown model: '{bare_name(record.name)}' version {number} is not found"
        )
    if version.loaded is None:
        raise Unavailable(
            f"Request for unknown model: '{bare_name(record.name)}' version {number} is not at "
            "ready state"
        )
    return version.loaded


def ambiguous(name: str, count: int) -> InvalidArgument:
    return InvalidArgument(
        f"There are {count} identifiers of model '{name}' in global map, model namespace must be "
        "provided to resolve ambiguity."
    )


def status_text(fault: RuntimeFault) -> str:
    """`Internal: …`: a fault as the index and nested messages show it."""
    return f"{_PREFIX.get(fault.code.value, 'Unknown')}: {fault.text}"


_PREFIX = {
    "unknown": "Unknown",
    "internal": "Internal",
    "not_found": "Not found",
    "invalid_arg": "Invalid argument",
    "unavailable": "Unavailable",
    "unsupported": "Unsupported",
    "already_exists": "Already exists",
    "cancelled": "Cancelled",
}
