"""Loads one model: polls its files, makes ready the versions that changed, switches in one step.

A reload makes the new versions ready beside the old ones and lets the old ones finish what they had
accepted. Versions whose files and config did not change stay as they are. All versions load, or none.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.lifecycle.composition import Composition, Missing
from inference_runtime.lifecycle.ensemble_checks import ComposingModels
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.registry import ModelRegistry, status_text
from inference_runtime.lifecycle.resizing import same_but_for
from inference_runtime.lifecycle.retirement import Retirement
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.repository import ModelRepository, PolledModel
from inference_runtime.spec.states import UNLOADED

logger = logging.getLogger(__name__)
Looked = TypeVar("Looked")


class ModelLoader:
    """The caller sees to it that one model is not loaded twice at the same time."""

    def __init__(
        self,
        *,
        repository: ModelRepository,
        registry: ModelRegistry,
        versions: VersionLoader,
        retirement: Retirement,
        composition: Composition,
    ) -> None:
        self._repository = repository
        self._registry = registry
        self._versions = versions
        self._retirement = retirement
        self._composition = composition

    async def load(self, name: str, override: LoadOverride | None, missing: Missing) -> PolledModel:
        """What serves now. `missing`: what an ensemble needs and can not have."""
        polled = await self.polling(name, lambda: self._repository.poll(name, override))
        try:
            return await self._apply(polled, missing)
        finally:
            if self._registry.applied(name) is not polled:
                await self._retirement.release(polled.copy)

    async def _apply(self, polled: PolledModel, missing: Missing) -> PolledModel:
        name = polled.name
        applied = self._registry.applied(name)
        if applied is not None and polled.override is None and _unmodified(applied, polled):
            self._registry.forgive(name, applied.versions)
            return applied
        if not polled.versions:
            raise InvalidArgument(
                f"load failed for model '{name}': at least one version must be available under the "
                f"version policy of model '{name}'\n"
            )
        same = self._same_files(applied, polled)
        as_it_is = applied is not None and same_but_for(
            applied.proto, polled.proto, "version_policy"
        )
        kept = same if as_it_is else {}
        fresh = [number for number in polled.versions if number not in kept]
        composing = self._composing(polled, missing)
        versions = {**kept, **await self._load_versions(polled, fresh, same, composing)}
        for loaded in kept.values():
            loaded.config.proto.version_policy.CopyFrom(polled.proto.version_policy)
        for number in fresh:
            self._versions.publish(versions[number])
        for loaded in self._registry.publish(name, versions, polled):
            self._retirement.retire(loaded, applied)
        self._retirement.forget(applied)
        logger.info("model '%s' serves versions %s", name, ", ".join(map(str, sorted(versions))))
        return polled

    def _same_files(
        self, applied: PolledModel | None, polled: PolledModel
    ) -> dict[int, LoadedVersion]:
        """Serving versions that need no new load: other instance groups or another policy at most."""
        if applied is None or not same_but_for(
            applied.proto, polled.proto, "version_policy", "instance_group"
        ):
            return {}
        serving = self._registry.serving(polled.name)
        return {
            number: serving[number]
            for number in polled.versions
            if number in serving and _unchanged(applied, polled, number)
        }

    async def polling(self, name: str, look: Callable[[], Looked]) -> Looked:
        """A look at the files of a model; the fault of one that fails is the load's."""
        try:
            return await self._versions.threads.fetching(look)
        except RuntimeFault as fault:
            logger.error("model '%s' can not be polled: %s", name, fault.text)
            raise Internal(
                f"failed to load '{name}', failed to poll from model repository: {fault.text}"
            ) from fault

    async def _load_versions(
        self,
        polled: PolledModel,
        numbers: Sequence[int],
        same: Mapping[int, LoadedVersion],
        composing: ComposingModels | None,
    ) -> dict[int, LoadedVersion]:
        """All of them or none; those that are the `same` only get other instances."""
        name = polled.name
        self._registry.begin_load(name, numbers)
        results = await asyncio.gather(
            *(
                self._versions.resize(same[number], polled)
                if number in same
                else self._versions.load(polled, number, composing)
                for number in numbers
            ),
            return_exceptions=True,
        )
        by_number = dict(zip(numbers, results, strict=True))
        loaded = {n: r for n, r in by_number.items() if isinstance(r, LoadedVersion)}
        failed = {n: r for n, r in by_number.items() if isinstance(r, BaseException)}
        for number, version in loaded.items():
            before = same[number].copies if number in same else []
            copies = {copy for copy in (polled.copy, *before) if copy is not None}
            version.copies = [copy.hold() for copy in copies]
        if not failed:
            return loaded
        for number, version in loaded.items():
            self._registry.fail_load(name, number, UNLOADED)
            self._retirement.retire(version, None)
        text = f"load failed for model '{name}': "
        for number, error in failed.items():
            if isinstance(error, asyncio.CancelledError):
                raise error
            fault = error if isinstance(error, RuntimeFault) else Internal(repr(error))
            reason = status_text(fault)
            self._registry.fail_load(name, number, reason)
            logger.error("loading model '%s' version %d failed: %s", name, number, reason)
            text += f"version {number} is at UNAVAILABLE state: {reason};"
        raise InvalidArgument(f"{text}\n")

    def _composing(self, polled: PolledModel, missing: Missing) -> ComposingModels | None:
        scheduling = polled.ensemble
        return self._composition.composing(scheduling, missing) if scheduling is not None else None


def _unmodified(applied: PolledModel, polled: PolledModel) -> bool:
    """A config override stays in effect until a file changes; given files only until the next plain load."""
    if applied.override is not None and applied.override.directory is not None:
        return False
    return applied.source == polled.source and applied.snapshot == polled.snapshot


def _unchanged(applied: PolledModel, polled: PolledModel, number: int) -> bool:
    """Whether the files of a version, and those that all versions share, are as they were."""
    return (
        applied.source == polled.source
        and number in applied.snapshot.versions
        and applied.snapshot.versions[number] == polled.snapshot.versions.get(number)
        and applied.snapshot.other == polled.snapshot.other
    )
