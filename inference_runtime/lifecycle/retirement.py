"""Versions on their way out: they finish what they accepted, then their memory and files go. Event loop only."""

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.repository.model_cache import ModelCopy
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.repository import PolledModel

logger = logging.getLogger(__name__)


class Retirement:
    """`keeps_overrides`: files that came with a load are there for the next start of the server."""

    def __init__(self, loader: VersionLoader, registry: ModelRegistry) -> None:
        self._loader = loader
        self._registry = registry
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: Counter[PolledModel] = Counter()
        self._ensembles: dict[asyncio.Task[None], tuple[str, ...]] = {}  # and the models of each
        self.keeps_overrides = False

    def retire(self, loaded: LoadedVersion, applied: PolledModel | None) -> asyncio.Task[None]:
        """`applied` is what the version was loaded from, if it ever served; the task ends when it is gone."""
        if applied is not None:
            self._leaving[applied] += 1
        task = self._soon(self._leave(loaded, applied))
        if loaded.config.ensemble is not None:
            self._ensembles[task] = loaded.config.ensemble.model_names
            task.add_done_callback(self._ensembles.pop)
        return task

    async def ensembles_over(self, name: str) -> None:
        """Returns when those with a step of this model that are leaving now are gone."""
        await asyncio.gather(*[task for task, names in self._ensembles.items() if name in names])

    def forget(self, applied: PolledModel | None) -> list[asyncio.Task[None]]:
        """What serves now comes from elsewhere, or nothing serves any more."""
        if applied is None or applied.copy is None:
            return []
        return [self._soon(self.release(applied.copy))]

    async def finish(self) -> None:
        """Returns when everything that is leaving now is gone."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def release(self, *copies: ModelCopy | None) -> None:
        for copy in copies:
            if copy is not None:
                await self._loader.threads.with_files(copy.release)

    async def discard(self, override: LoadOverride | None) -> None:
        directory = override.directory if override is not None else None
        if directory is not None:
            await self._loader.threads.with_files(
                lambda: shutil.rmtree(directory, ignore_errors=True)
            )

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _leave(self, loaded: LoadedVersion, applied: PolledModel | None) -> None:
        try:
            await self._loader.retire(
                loaded, serving=self._registry.all_serving, at_work=self._registry.at_work
            )
        except RuntimeFault as fault:
            logger.error("unloading '%s' version %d: %s", loaded.name, loaded.number, fault.text)
        self._registry.finish_unload(loaded)
        await self.release(*loaded.copies)
        if applied is None:
            return
        self._leaving[applied] -= 1
        if self._leaving[applied] > 0:
            return  # others of the same load still stand on its files
        del self._leaving[applied]
        if not self.keeps_overrides and self._registry.applied(loaded.name) is not applied:
            await self.discard(applied.override)
