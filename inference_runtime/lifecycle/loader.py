"""Makes one version ready to serve, and takes one apart: config → instances → scheduler, and back.

Everything that may take long runs on threads, so many loads at a time; the scheduler is made on the event
loop, where it lives.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from inference_runtime.backends.base import BackendServices, InstanceHealth, LoadedInstance
from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.host_binding import bound
from inference_runtime.lifecycle.ensemble_checks import ComposingModels
from inference_runtime.lifecycle.ensemble_loading import EnsembleLoader
from inference_runtime.lifecycle.free_memory import return_free_memory
from inference_runtime.lifecycle.load_threads import LoadThreads
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.resizing import (
    keeps_copies,
    resized_config,
    shared_instances,
)
from inference_runtime.lifecycle.version_config import (
    BackendSettings,
    PreparedVersion,
    artifact_of,
    asks_a_process,
    label_lines,
    prepare_version,
)
from inference_runtime.lifecycle.warm_up import read_samples, warm_up
from inference_runtime.repository.repository import PolledModel
from inference_runtime.scheduling.scheduler import SharedParts, build_scheduler
from inference_runtime.spec.model_config import InstanceSpec
from inference_runtime.telemetry.registry import StatsRegistry
from inference_runtime.telemetry.stats import VersionStats

logger = logging.getLogger(__name__)


class VersionLoader:
    def __init__(
        self,
        *,
        stats: StatsRegistry,
        settings: BackendSettings,
        services: BackendServices,
        shared: SharedParts | None = None,
        threads: int = 4,
        retries: int = 0,
    ) -> None:
        self._stats = stats
        self._settings = settings
        self._services = services
        self._shared = shared or SharedParts()
        self._ensembles = EnsembleLoader(stats, services.inference, self._shared)
        self._retries = retries
        self.threads = LoadThreads(threads)

    async def load(
        self, polled: PolledModel, version: int, composing: ComposingModels | None = None
    ) -> LoadedVersion:
        """A version that is ready to serve and serves nobody yet; `composing` is for ensembles."""
        for attempt in range(self._retries + 1):
            try:
                if composing is not None:
                    return await self._load_ensemble(polled, version, composing)
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

    async def _load_ensemble(
        self, polled: PolledModel, version: int, composing: ComposingModels
    ) -> LoadedVersion:
        began = time.monotonic()
        labels = await self.threads.loading(lambda: label_lines(polled, polled.proto))
        loaded = self._ensembles.load(polled, version, composing, labels)
        loaded.stats.load_seconds = time.monotonic() - began
        return loaded

    async def _load_once(self, polled: PolledModel, version: int) -> LoadedVersion:
        began = time.monotonic()
        prepared = await self.threads.loading(
            lambda: prepare_version(polled, version, self._settings, self._services),
            elsewhere=asks_a_process(polled.proto),
        )
        instances = await self._instances(prepared, list(prepared.config.instances()))
        stats = self._stats.prepare(model=polled.name, version=version, config=prepared.config)
        try:
            loaded = _assemble(prepared, instances, stats, self._shared)
        except RuntimeFault:
            await self._release(instances)
            raise
        stats.load_seconds = time.monotonic() - began
        return loaded

    async def resize(self, loaded: LoadedVersion, polled: PolledModel) -> LoadedVersion:
        """The same version with other instance groups, on the copies there are; `loaded` goes on meanwhile."""
        factory = loaded.factory
        if factory is None or not keeps_copies(factory, loaded.config):
            return await self.load(polled, loaded.number)
        config = resized_config(loaded.config, polled.proto, factory, self._settings)
        prepared = PreparedVersion(
            identity=polled.name,
            artifact=artifact_of(polled, loaded.number),
            config=config,
            factory=factory,
            options=self._settings.options(config.backend),
            labels=loaded.labels,
            samples=await self.threads.loading(lambda: read_samples(config, polled.directory)),
        )
        kept, missing = shared_instances(config, loaded.instances, overlapping=factory.overlapping)
        fresh = await self._instances(prepared, missing)
        try:
            return _assemble(prepared, [*kept, *fresh], loaded.stats, self._shared)
        except RuntimeFault:
            await self._release(fresh)
            raise

    async def _instances(
        self, prepared: PreparedVersion, specs: Sequence[InstanceSpec]
    ) -> list[LoadedInstance]:
        """All copies at once, as far as the threads reach; none stays behind when one fails."""
        results = await asyncio.gather(
            *(self._instance(prepared, spec) for spec in specs), return_exceptions=True
        )
        loaded = [result for result in results if isinstance(result, LoadedInstance)]
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            await self._release(loaded)
            raise failures[0]
        return loaded

    async def _instance(self, prepared: PreparedVersion, spec: InstanceSpec) -> LoadedInstance:
        policy = self._settings.host_policy(spec)
        place = partial(bound, policy)
        backend = prepared.factory(prepared.options, replace(self._services, place=place))
        config = self._settings.config_for(spec, prepared.config)

        def load() -> None:
            with place():
                backend.load(prepared.artifact, config, spec)

        began_ns = time.monotonic_ns()
        elsewhere = isinstance(backend, InstanceHealth)
        await self.threads.loading(load, elsewhere=elsewhere)
        instance = LoadedInstance(
            spec,
            backend,
            time.monotonic_ns() - began_ns,
            per_request=prepared.factory.per_request,
            host_policy=policy,
        )

        def warm() -> None:
            with place():  # what it allocates stays
                warm_up(instance, prepared.config, prepared.samples)

        try:
            await self.threads.loading(warm, elsewhere=elsewhere)
        except RuntimeFault:
            await self._release([instance])
            raise
        return instance

    def publish(self, loaded: LoadedVersion) -> None:
        """Its counters become the version's: call it in the same turn in which it begins to serve."""
        self._stats.publish(loaded.stats, load_seconds=loaded.stats.load_seconds)

    async def retire(
        self,
        loaded: LoadedVersion,
        *,
        serving: Callable[[], Iterable[LoadedVersion]],
        at_work: Callable[[], Iterable[LoadedVersion]],
    ) -> None:
        """Waits for the last request of a version that takes no new ones, then frees its memory.

        What other versions `at_work` stand on stays: counters and copies outlive a change of instances.
        """
        await _drain(loaded, serving)
        others = [other for other in at_work() if other is not loaded]
        heirs = [other for other in others if other.stats is loaded.stats]
        for heir in heirs:
            heir.stats.gauges = heir.scheduler.gauges
        if not heirs:
            self._stats.retire(loaded.stats)
        used = {id(instance.backend) for other in others for instance in other.instances}
        await self._release([each for each in loaded.instances if id(each.backend) not in used])

    async def _release(self, instances: Sequence[LoadedInstance]) -> None:
        for instance in instances:
            await self.threads.unloading(instance.backend.unload)
        await self.threads.unloading(return_free_memory)


async def _drain(loaded: LoadedVersion, serving: Callable[[], Iterable[LoadedVersion]]) -> None:
    """Executions that do not end within their backend's limit are ended by force, where that is possible.

    Not on copies that serve on in another version: those are ended when that one goes.
    """
    draining = asyncio.ensure_future(loaded.scheduler.drain())
    if loaded.health:
        limit = max(each.drain_limit for each in loaded.health)
        await asyncio.wait([draining], timeout=limit)
        if not draining.done():
            logger.error(
                "'%s' version %d still executes after %g s and is ended",
                loaded.name,
                loaded.number,
                limit,
            )
            kept = {id(each) for other in serving() for each in other.health}
            for each in loaded.health:
                if id(each) not in kept:
                    each.abort()
    await draining


def _assemble(
    prepared: PreparedVersion,
    instances: Sequence[LoadedInstance],
    stats: VersionStats,
    shared: SharedParts,
) -> LoadedVersion:
    artifact, config = prepared.artifact, prepared.config
    scheduler = build_scheduler(
        model_name=artifact.model_name,
        version=artifact.version,
        config=config,
        instances=instances,
        stats=stats,
        shared=shared,
    )
    return LoadedVersion(
        name=prepared.identity,
        number=artifact.version,
        config=config,
        scheduler=scheduler,
        stats=stats,
        instances=tuple(instances),
        labels=prepared.labels,
        utf8_strings=prepared.factory.utf8_strings,
        factory=prepared.factory,
    )
