"""Makes one version ready to serve, and takes one apart: config → instances → scheduler, and back.

Everything that may take long runs on a bounded pool of threads; the scheduler is made on the event
loop, where it lives.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.lifecycle.free_memory import return_free_memory
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.version_config import (
    BackendSettings,
    PreparedVersion,
    prepare_version,
)
from inference_runtime.repository.repository import PolledModel
from inference_runtime.scheduling.scheduler import build_scheduler
from inference_runtime.spec.layout import OutsideRoot
from inference_runtime.spec.model_config import InstanceSpec
from inference_runtime.telemetry.registry import StatsRegistry

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class VersionLoader:
    def __init__(
        self,
        *,
        stats: StatsRegistry,
        settings: BackendSettings,
        threads: int = 4,
        retries: int = 0,
    ) -> None:
        self._stats = stats
        self._settings = settings
        self._retries = retries
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="model-load")

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Blocking work of a load; whatever goes wrong comes back as a RuntimeFault."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeFault:
            raise
        except OutsideRoot as error:
            raise InvalidArgument(str(error)) from error
        except Exception as error:
            logger.exception("a load failed in a way nobody foresaw")
            raise Internal(f"{type(error).__name__}: {error}") from error

    async def load(self, polled: PolledModel, version: int) -> LoadedVersion:
        """A version that is ready to serve and serves nobody yet."""
        for attempt in range(self._retries + 1):
            try:
                return await self._load_once(polled, version)
            except RuntimeFault as fault:
                if attempt == self._retries:
                    raise
                logger.warning(
                    "loading '%s' version %d failed, trying again: %s",
                    polled.name,
                    version,
                    fault.text,
                )
        raise AssertionError("unreachable")

    async def _load_once(self, polled: PolledModel, version: int) -> LoadedVersion:
        began = time.monotonic()
        prepared = await self.in_thread(lambda: prepare_version(polled, version, self._settings))
        instances = await self._instances(prepared)
        stats = self._stats.prepare(model=polled.name, version=version, config=prepared.config)
        try:
            scheduler = build_scheduler(
                model_name=polled.name,
                version=version,
                config=prepared.config,
                instances=instances,
                stats=stats,
                loop=asyncio.get_running_loop(),
            )
        except RuntimeFault:
            await self._release(instances)
            raise
        stats.load_seconds = time.monotonic() - began
        return LoadedVersion(
            name=polled.name,
            number=version,
            config=prepared.config,
            scheduler=scheduler,
            stats=stats,
            instances=tuple(instances),
            labels=prepared.labels,
            utf8_strings=prepared.factory.utf8_strings,
        )

    async def _instances(self, prepared: PreparedVersion) -> list[LoadedInstance]:
        """All copies at once, as far as the threads reach; none stays behind when one fails."""
        results = await asyncio.gather(
            *(self._instance(prepared, spec) for spec in prepared.config.instances()),
            return_exceptions=True,
        )
        loaded = [result for result in results if isinstance(result, LoadedInstance)]
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            await self._release(loaded)
            raise failures[0]
        return loaded

    async def _instance(self, prepared: PreparedVersion, spec: InstanceSpec) -> LoadedInstance:
        backend = prepared.factory(prepared.options)
        began_ns = time.monotonic_ns()
        await self.in_thread(lambda: backend.load(prepared.artifact, prepared.config, spec))
        return LoadedInstance(spec, backend, time.monotonic_ns() - began_ns)

    def publish(self, loaded: LoadedVersion) -> None:
        """Its counters become the version's: call it in the same turn in which it begins to serve."""
        self._stats.publish(loaded.stats, load_seconds=loaded.stats.load_seconds)

    async def retire(self, loaded: LoadedVersion) -> None:
        """Waits for the last request of a version that takes no new ones, then frees its memory."""
        await loaded.scheduler.drain()
        self._stats.retire(loaded.stats)
        await self._release(list(loaded.instances))

    async def _release(self, instances: list[LoadedInstance]) -> None:
        for instance in instances:
            await self.in_thread(instance.backend.unload)
        await self.in_thread(return_free_memory)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
