"""Loads and unloads models by name, one at a time per model, with what follows for the ensembles over them.

How the versions of one model are loaded and switched to is `model_loader`'s.
"""

import asyncio
import logging

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.composition import Composition, Missing
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.model_loader import ModelLoader
from inference_runtime.lifecycle.model_locks import ModelLocks
from inference_runtime.lifecycle.registry import ModelRegistry, ambiguous
from inference_runtime.lifecycle.retirement import Retirement
from inference_runtime.lifecycle.shared_look import SharedLook
from inference_runtime.lifecycle.wanted_models import WantedModels
from inference_runtime.repository.overrides import LoadOverride, LoadParameters, write_override
from inference_runtime.repository.repository import ModelRepository

logger = logging.getLogger(__name__)


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
        self._wanted = wanted
        self._composition = Composition(registry)
        self._locks = ModelLocks()
        self._retirement = Retirement(loader, registry)
        self._models = ModelLoader(
            repository=repository,
            registry=registry,
            versions=loader,
            retirement=self._retirement,
            composition=self._composition,
        )
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
                override = await self._models.polling(
                    name,
                    lambda: write_override(parameters, self._wanted.overrides_directory()),
                )
            try:
                polled = await self._models.load(name, override, missing)
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
