"""The composition root: builds the parts from the settings; serve → load → wait → drain → unload."""

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable

from inference_runtime.backends.base import BackendServices
from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.lifecycle import ModelLifecycle
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.poller import RepositoryPoller
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.lifecycle.start_up import (
    ModelControlMode,
    StartUp,
    asked_for,
    load_at_start,
)
from inference_runtime.lifecycle.version_config import BackendSettings
from inference_runtime.lifecycle.wanted_models import WantedModels
from inference_runtime.listeners import Listeners
from inference_runtime.processes.supervisor import NotServed
from inference_runtime.repository.locations import open_stores
from inference_runtime.repository.model_cache import ModelCache
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.routing.core import CoreParts, RuntimeCore
from inference_runtime.routing.slots import Slots
from inference_runtime.routing.traffic_store import TrafficStore
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.scheduler import SharedParts
from inference_runtime.settings import RuntimeSettings, child_environment, scheduler_hold
from inference_runtime.shared_memory.regions import Regions
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.model_control_port import ModelControlPort
from inference_runtime.telemetry.logs import RuntimeLog
from inference_runtime.telemetry.telemetry import Telemetry
from inference_runtime.telemetry.tracer import Tracer

logger = logging.getLogger(__name__)

MODEL_CACHE_DIRECTORY = "model-copies"  # of the state directory: of models from object storage
_WIND_UP_SECONDS = 5.0  # for answers on their way out, after the last request is settled
_COLLECT_EVERY = (
    20_000  # allocations; a request leaves few cycles, and a collection stops everything
)


class ServerFailed(Exception):
    """The server can not be what its command line asks for; the text is for the operator."""


class Server:
    def __init__(self, settings: RuntimeSettings, log: RuntimeLog) -> None:
        self._settings = settings
        self._log = log
        self._tracer = Tracer(settings.traces)
        explicit = settings.mode is ModelControlMode.EXPLICIT
        state = settings.state_directory
        self._telemetry = Telemetry(settings.metrics_options)
        cache_directory = state / MODEL_CACHE_DIRECTORY if state is not None else None
        self._copies = ModelCache(cache_directory, settings.cache_bytes)
        try:
            stores = open_stores(settings.repositories, self._copies)
        except RuntimeFault as fault:
            raise ServerFailed(f"error: creating server: {fault.text}") from fault
        self._repository = ModelRepository(
            stores,
            config_name=settings.config_name,
            require_complete=not settings.loading.auto_complete,
            namespacing=settings.namespacing,
        )
        self._registry = ModelRegistry(namespacing=settings.namespacing)
        self._wanted = WantedModels(state if explicit else None)
        self._traffic = TrafficStore(state)
        self._regions = Regions(settings.regions)
        self._listeners = Listeners(settings)
        self._exit_asked = asyncio.Event()
        self._loading: asyncio.Task[None] | None = None  # the loop keeps only a weak reference

    async def run(self) -> None:
        """Returns when the server has been asked to end and has drained; raises ServerFailed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._exit_asked.set)
        await self._telemetry.start()
        self._build()
        try:
            await self._listen()
            await self._load_or_exit()
            await self._until_exit()
        finally:
            await self._shut_down()

    def _build(self) -> None:
        settings = self._settings
        services = BackendServices(
            asyncio.get_running_loop(),
            InferencePort(),
            ModelControlPort(),
            self._telemetry.custom,
            child_environment(),
        )
        limiter = None if settings.rate_limit is None else RateLimiter(settings.rate_limit)
        cache = ResponseCache(size) if (size := settings.response_cache_bytes) else None
        self._telemetry.cache = cache.counters if cache is not None else None
        self._loader = VersionLoader(
            stats=self._telemetry.registry,
            services=services,
            shared=SharedParts(limiter, cache, scheduler_hold()),
            settings=BackendSettings(
                auto_complete=settings.loading.auto_complete,
                by_backend=settings.loading.backend_options,
                usable_gpus=self._usable_gpus(),
                host_policies=settings.loading.host_policies,
                min_compute_capability=settings.loading.min_compute_capability,
                compute_capabilities=self._telemetry.gpu.latest().compute_capabilities,
            ),
            threads=settings.loading.threads,
            retries=settings.loading.retries,
        )
        self._lifecycle = ModelLifecycle(
            repository=self._repository,
            registry=self._registry,
            loader=self._loader,
            wanted=self._wanted,
        )
        self.core = RuntimeCore(
            CoreParts(
                registry=self._registry,
                lifecycle=self._lifecycle,
                traffic=self._traffic,
                telemetry=self._telemetry,
                mode=settings.mode,
                server_id=settings.server_id,
                strict_readiness=settings.strict_readiness,
                slots=Slots(limiter),
                log=self._log,
                tracer=self._tracer,
                regions=self._regions,
            )
        )
        services.inference.bind(self.core.infer_inner, self.core.cancel, self._tracer.context_of)
        services.models.bind(self.core.control)

    def _usable_gpus(self) -> tuple[int, ...]:
        found = self._telemetry.gpu.latest()
        minimum = self._settings.loading.min_compute_capability
        usable = found.usable(minimum)
        for gpu in found.gpus:
            if gpu.index not in usable:
                logger.warning(
                    "GPU %d (%s) is not used: its compute capability %s is below %g",
                    gpu.index, gpu.name, gpu.compute_capability, minimum,
                )  # fmt: skip
        return usable

    async def _listen(self) -> None:
        try:
            await self._listeners.open(self.core)
        except NotServed as fault:
            raise ServerFailed(
                f"failed to start {fault.listener or 'the'} service: Unavailable - {fault.text}"
            ) from fault

    async def _load_or_exit(self) -> None:
        """A load that is under way when the exit is asked for ends, or runs into the exit's time limit."""
        loading = asyncio.create_task(self._load())
        leaving = asyncio.create_task(self._exit_asked.wait())
        await asyncio.wait([loading, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if loading.done():
            loading.result()
            # What is there now stays: a collection need not look at it again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_COLLECT_EVERY, 20, 50)
        else:
            self._loading = loading

    async def _load(self) -> None:
        settings = self._settings
        self.core.restore_traffic()
        problems = await self._loader.threads.looking(self._repository.problems)
        if problems:
            self._fail(f"Internal - {problems[0]}", usable=False)
            return
        asked = await self._loader.threads.looking(
            lambda: asked_for(settings.mode, settings.load_models, self._repository)
        )
        start = await load_at_start(self._lifecycle, asked, self._wanted.restore())
        await self._tell(start)
        if start.failures:
            self._fail("Internal - failed to load all models")
        self.core.started()

    async def _tell(self, start: StartUp) -> None:
        logger.info(
            "%d models loaded, %d failed", len(start.loaded), len(start.failures) + len(start.lost)
        )
        for entry in await self.core.repository_index(False):
            logger.info(
                "| %s | %s | %s | %s |", entry.name, entry.version, entry.state, entry.reason
            )
        if not start.loaded and self._settings.mode is not ModelControlMode.EXPLICIT:
            roots = ", ".join(location.shown for location in self._settings.repositories)
            logger.warning("no model was found in %s: is this the right directory?", roots)

    def _fail(self, text: str, *, usable: bool = True) -> None:
        if self._settings.exit_on_error:
            raise ServerFailed(f"error: creating server: {text}")
        logger.error("error: creating server: %s", text)
        if not usable:
            self.core.failed()

    async def _until_exit(self) -> None:
        poller: asyncio.Task[None] | None = None
        if self._settings.mode is ModelControlMode.POLL:
            poller = asyncio.create_task(self._poller().run())
        await self._exit_asked.wait()
        if poller is not None:
            poller.cancel()

    def _poller(self) -> RepositoryPoller:
        poller = RepositoryPoller(
            repository=self._repository,
            registry=self._registry,
            lifecycle=self._lifecycle,
            loader=self._loader,
            interval_seconds=self._settings.poll_seconds,
        )
        poller.remember(self._registry.names())
        return poller

    async def _shut_down(self) -> None:
        """No new request, those in flight to their end within the limit, then everything goes."""
        limit = self._settings.exit_timeout_seconds
        ends_at = time.monotonic() + limit
        logger.info("Waiting for in-flight requests to complete.")
        self.core.begin_exit()
        self._listeners.stop_accepting_grpc()
        finished = await self._in_time(self._lifecycle.shut_down, ends_at)
        grace = min(max(ends_at - time.monotonic(), 0.1), _WIND_UP_SECONDS)
        await self._listeners.close(grace)
        self._regions.close()
        self._loader.threads.close()
        self._wanted.close()
        self._copies.close()
        self._tracer.close()
        if not finished:
            logger.error("Exit timeout expired. Exiting immediately.")
        if not finished or self._loader.threads.busy:
            logging.shutdown()
            os._exit(0)  # a thread that never returns would keep the interpreter for ever

    async def _in_time(self, work: Callable[[], Awaitable[None]], ends_at: float) -> bool:
        task = asyncio.ensure_future(work())
        while not task.done():
            left = ends_at - time.monotonic()
            if left <= 0:
                task.cancel()
                return False
            await asyncio.wait([task], timeout=min(left, 1.0))
            if not task.done():
                self._tell_inflight(left)
        return True

    def _tell_inflight(self, left: float) -> None:
        inflight = self.core.inflight()
        logger.info(
            "Timeout %d: Found %d model versions that have in-flight inferences",
            left,
            len(inflight),
        )
        for (name, version), count in inflight.items():
            logger.info("Model '%s' (version %d) has %d in-flight inferences", name, version, count)
