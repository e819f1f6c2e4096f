"""The door to telemetry: the registry, the machine's monitors, and every form they are read in."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inference_runtime.telemetry.cache_metrics import CACHE_FAMILIES
from inference_runtime.telemetry.cache_stats import CacheCounters
from inference_runtime.telemetry.custom_metrics import CustomMetrics
from inference_runtime.telemetry.exposition import render
from inference_runtime.telemetry.gpu import GpuMonitor
from inference_runtime.telemetry.host import HostMonitor
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.registry import StatsRegistry
from inference_runtime.telemetry.runtime_metrics import RUNTIME_FAMILIES
from inference_runtime.telemetry.snapshot import MetricsSnapshot, SlotPool, TrafficShare
from inference_runtime.telemetry.switchyard_statistics import StateOf, statistics_body
from inference_runtime.telemetry.triton_metrics import TRITON_FAMILIES

FAMILIES = TRITON_FAMILIES + CACHE_FAMILIES + RUNTIME_FAMILIES


def _no_traffic() -> Iterable[TrafficShare]:
    return ()


def _none_unrouted() -> Mapping[str, int]:
    return {}


class Telemetry:
    """What is set from above: `traffic`, the arms of the tables; `unrouted`, the requests that no version
    has seen; `slots`, the pools of the rate limiter; `cache`, the counters of the response cache."""

    def __init__(
        self,
        options: MetricsOptions | None = None,
        *,
        gpu: GpuMonitor | None = None,
        host: HostMonitor | None = None,
    ) -> None:
        self.options = options or MetricsOptions()
        self.gpu = gpu or GpuMonitor()
        self.host = host or HostMonitor(interval_ns=self.options.interval_ns)
        self.registry = StatsRegistry(self.options, gpu_uuid=self.gpu.uuid)
        self.custom = CustomMetrics(reserved={family.name for family in FAMILIES})
        self.traffic: Callable[[], Iterable[TrafficShare]] = _no_traffic
        self.unrouted: Callable[[], Mapping[str, int]] = _none_unrouted
        self.slots: Callable[[], Iterable[SlotPool]] = tuple
        self.cache: CacheCounters | None = None

    async def start(self, *, limit_seconds: float = 5.0) -> None:
        """Reads the GPUs once, so that instances know their devices' names; a hanging driver is left behind."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def read() -> None:
            self.gpu.read()
            with contextlib.suppress(RuntimeError):  # the loop closed while the driver thought
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=read, name="gpu-monitor", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                await done.wait()

    def metrics_text(self) -> bytes:
        options = self.options
        snapshot = MetricsSnapshot(
            options=options,
            versions=tuple(self.registry.published()),
            arms=tuple(
                (model, version, arm)
                for (model, version), arms, _ in self.registry.versions()
                for arm in arms.values()
            ),
            process=self.host.process(),
            host=self.host.host() if options.cpu else None,
            gpus=self.gpu.latest().gpus if options.gpu else (),
            traffic=self.traffic(),
            unrouted=self.unrouted(),
            slots=tuple(self.slots()),
            cache=self.cache,
        )
        return render((*FAMILIES, *self.custom.families()), snapshot).encode()

    def kv_cache_blocks(self) -> Mapping[str, float]:
        """What a model of TensorRT-LLM says of its key-value cache, by kind; {} where there is none."""
        return self.custom.values("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type")

    def switchyard_statistics(self, state_of: StateOf) -> dict[str, Any]:
        return statistics_body(
            registry=self.registry,
            process=self.host.process(),
            gpus=self.gpu.latest(),
            state_of=state_of,
        )
