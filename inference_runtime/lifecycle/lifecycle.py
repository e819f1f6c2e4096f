"""Loads, reloads and unloads models: new before old, one at a time per model, nothing in flight lost.

A reload makes the new versions ready beside the old ones, switches in one step and lets the old ones
finish what they had accepted. Versions whose files and config did not change stay as they are.
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
from inference_runtime.lifecycle.model_locks import ModelLocks
from inference_runtime.lifecycle.registry import ModelRegistry, ambiguous, status_text
from inference_runtime.lifecycle.resizing import same_but_for
from inference_runtime.lifecycle.retirement import Retirement
from inference_runtime.lifecycle.shared_look import SharedLook
from inference_runtime.lifecycle.wanted_models import WantedModels
from inference_runtime.repository.overrides import LoadOverride, LoadParameters, write_override
from inference_runtime.repository.repository import ModelRepository, PolledModel
from inference_runtime.spec.states import UNLOADED

logger = logging.getLogger(__name__)
Looked = TypeVar("Looked")


class ModelLifecycle:
    def __init__(
        self,
        *,
        repository: ModelRepository,
        registry: ModelRegistry,
        loader: VersionLoader,
        wanted: WantedModels,
    ) -> None:
        self._repository = repository
        self._registry = registry
        self._loader = loader
        self._wanted = wanted
        self._composition = Composition(registry)
        self._locks = ModelLocks()
        self._retirement = Retirement(loader, registry)
        self._threads = loader.threads
        self._found = SharedLook(lambda: self._threads.looking(repository.names))

    async def found(self) -> dict[str, bool]:
        """Identities of the models in the repositories now → whether in several."""
        return await self._found()

    async def load_named(self, name: str, parameters: LoadParameters) -> None:
        """A client's load: of every model that bears the name, where names may be the same."""
        names = await self._threads.looking(lambda: self._repository.identities(name))
        if len(names) > 1 and not parameters.empty:
            raise ambiguous(name, len(names))
        for each in names:
            await self.load(each, parameters)

    async def unload_named(self, name: str, *, dependents: bool) -> None:
        for each in self._registry.identities(name) or [name]:
            await self.unload(each, dependents=dependents)

    async def load(
        self,
        name: str,
        parameters: LoadParameters | None = None,
        *,
        kept: LoadOverride | None = None,
        remember: bool = True,
        automatic: bool = False,
    ) -> None:
        """Returns when the model serves what its files (or the parameters) say; else raises.

        `kept` is an override of an earlier life of this process, already on disk; `remember` has a
        restarted server load the model again. `automatic`: only an ensemble asks for it. Models that an
        ensemble needs are loaded before it.
        """
        config_json = parameters.config_json if parameters is not None else None
        if kept is not None:
            config_json = kept.config_json
        missing = await self._load_composing(name, config_json)
        async with self._locks.alone(name):
            if not automatic:
                self._composition.automatic.discard(name)
            elif self._registry.serving(name):
                return
            override = kept
            if parameters is not None and not parameters.empty:
                override = await self._polling(
                    name,
                    lambda: write_override(parameters, self._wanted.overrides_directory()),
                )
            try:
                polled = await self._load(name, override, missing)
            except RuntimeFault:
                if override is not None and override is not kept:
                    await self._retirement.discard(override)
                raise
            if remember:
                await self._threads.with_files(lambda: self._wanted.add(name, polled.override))
            if automatic:
                self._composition.automatic.add(name)
            self._composition.orphans.discard(name)
        await self._model_changed(name)

    async def unload(self, name: str, *, dependents: bool = False) -> None:
        """Returns when the versions accept no more requests; they finish those they have on their own.

        Ensembles over the model leave first, and finish what they have while the model still serves.
        `dependents`: of an ensemble, also the models that were loaded for it alone.
        """
        steps = self._composition.steps_of(name)
        for ensemble in self._composition.users(name):
            await self._orphan(ensemble)
        await self._retirement.ensembles_over(name)
        async with self._locks.alone(name):
            self._composition.orphans.discard(name)
            self._composition.automatic.discard(name)
            self._withdraw(name)
            await self._threads.with_files(lambda: self._wanted.remove(name))
        for ensemble in self._composition.users(name):  # loaded in the meantime
            await self._orphan(ensemble)
        if dependents:
            for step in self._composition.unused(steps):
                await self.unload(step, dependents=True)

    async def shut_down(self) -> None:
        """Lets loads end, takes every model out of service, returns when the last request is settled.

        What is to be loaded after a restart stays as it is.
        """
        await self._locks.all_free()
        self._retirement.keeps_overrides = True
        for group in self._composition.outermost_first():
            for name in group:
                self._withdraw(name)
            await self._retirement.finish()
        await self._retirement.finish()

    def _withdraw(self, name: str) -> list[asyncio.Task[None]]:
        """Out of service at once; the tasks end when the last request is settled."""
        applied = self._registry.applied(name)
        leaving = [
            self._retirement.retire(loaded, applied) for loaded in self._registry.withdraw(name)
        ]
        return [*leaving, *self._retirement.forget(applied)]

    # Ensembles

    async def _load_composing(self, name: str, config_json: str | None) -> Missing:
        steps = await self._steps_in_files(name, config_json)
        missing = await self._composition.missing(name, steps, self._steps_in_files)
        if missing.circle or not missing.names:
            return missing
        there = await self.found()
        for step in missing.names:
            if there.get(step, True):  # not there at all, or more than once
                missing.unknown.add(step)
                continue
            try:
                await self.load(step, remember=False, automatic=True)
            except RuntimeFault as fault:
                missing.failed[step] = fault.text.strip()
        return missing

    async def _steps_in_files(self, name: str, config_json: str | None = None) -> tuple[str, ...]:
        """The models of an ensemble that is to be loaded; what can not be read is told by the load itself."""
        try:
            return await self._threads.looking(lambda: self._repository.steps(name, config_json))
        except RuntimeFault:
            return ()

    async def _model_changed(self, name: str) -> None:
        """Ensembles over a model that was loaded: those that do not fit it any more leave, others come back."""
        for ensemble in self._composition.users(name):
            if not self._composition.still_holds(ensemble):
                logger.warning("ensemble '%s' does not fit model '%s' any more", ensemble, name)
                await self._orphan(ensemble)
        for ensemble in sorted(self._composition.orphans):
            try:
                steps = await self._steps_in_files(ensemble)
                if all(self._registry.serving(step) for step in steps):
                    await self.load(ensemble, remember=False)
            except RuntimeFault as fault:
                logger.warning("ensemble '%s' does not come back: %s", ensemble, fault.text.strip())

    async def _orphan(self, ensemble: str) -> None:
        """Takes an ensemble out of service with a model of its, when its last request is settled."""
        for outer in self._composition.users(ensemble):
            await self._orphan(outer)
        await self._retirement.ensembles_over(ensemble)
        async with self._locks.alone(ensemble):
            leaving = self._withdraw(ensemble)
            self._composition.orphans.add(ensemble)
        await asyncio.gather(*leaving)

    # Loading

    async def _load(
        self, name: str, override: LoadOverride | None, missing: Missing
    ) -> PolledModel:
        polled = await self._polling(name, lambda: self._repository.poll(name, override))
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
            self._loader.publish(versions[number])
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

    async def _polling(self, name: str, look: Callable[[], Looked]) -> Looked:
        try:
            return await self._threads.fetching(look)
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
                self._loader.resize(same[number], polled)
                if number in same
                else self._loader.load(polled, number, composing)
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
