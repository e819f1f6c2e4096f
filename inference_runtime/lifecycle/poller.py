"""Poll mode: follows the repository, loading what appeared or changed and unloading what is gone."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.lifecycle import ModelLifecycle
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.repository.snapshot import ModelSnapshot

logger = logging.getLogger(__name__)


class RepositoryPoller:
    def __init__(
        self,
        *,
        repository: ModelRepository,
        registry: ModelRegistry,
        lifecycle: ModelLifecycle,
        loader: VersionLoader,
        interval_seconds: float,
    ) -> None:
        self._repository = repository
        self._registry = registry
        self._lifecycle = lifecycle
        self._loader = loader
        self._interval_seconds = interval_seconds
        # What a load was last tried with: a model that can not be loaded is tried again when it changes.
        self._tried: dict[str, ModelSnapshot] = {}
        self._going: set[str] = set()  # models that are being unloaded
        self._tasks: set[asyncio.Task[None]] = set()

    def remember(self, names: Iterable[str]) -> None:
        """Models that were tried at start-up."""
        for name in names:
            applied = self._registry.applied(name)
            if applied is not None:
                self._tried[name] = applied.snapshot

    async def run(self) -> None:
        """Looks again whether or not what came of the last look is done: a model may load for ever."""
        try:
            while True:
                await asyncio.sleep(self._interval_seconds)
                try:
                    await self._look()
                except Exception:
                    logger.exception("polling the repository failed")
        finally:
            for task in self._tasks:
                task.cancel()

    async def poll(self) -> None:
        """One look; returns when everything it led to is done."""
        await asyncio.gather(*await self._look())

    async def _look(self) -> list[asyncio.Task[None]]:
        look = await self._loader.threads.looking(self._repository.look)
        found = {
            name: snapshot
            for name, snapshot in look.models.items()
            if self._source(name) not in look.unreachable
        }
        changed = [name for name, snapshot in found.items() if self._tried.get(name) != snapshot]
        gone = [
            name
            for name in self._registry.names()
            if name not in found
            and name not in self._going
            and name not in look.unreadable
            and not self._unknown(name, look.unreachable)
            and (self._registry.serving(name) or self._registry.has_failures(name))
        ]
        for name in self._tried.keys() - found.keys():
            if name not in look.unreadable and not self._unknown(name, look.unreachable):
                del self._tried[name]
        for name in changed:
            self._tried[name] = found[name]
        self._going.update(gone)
        return [self._soon(work) for work in (*map(self._load, changed), *map(self._unload, gone))]

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _source(self, name: str) -> str:
        """The repository that a serving model came from; "" where none serves."""
        applied = self._registry.applied(name)
        return applied.source.rpartition("/")[0] if applied is not None else ""

    def _unknown(self, name: str, unreachable: Mapping[str, str]) -> bool:
        """Whether the model may still be where it was, in a repository that does not answer."""
        source = self._source(name)
        return source in unreachable if source else bool(unreachable)

    async def _load(self, name: str) -> None:
        try:
            await self._lifecycle.load(name, remember=False)
        except RuntimeFault as fault:
            logger.error("%s", fault.text.strip())
        except Exception:
            logger.exception("loading '%s' failed", name)

    async def _unload(self, name: str) -> None:
        try:
            await self._lifecycle.unload(name)
        except Exception:
            logger.exception("unloading '%s' failed", name)
        finally:
            self._going.discard(name)
