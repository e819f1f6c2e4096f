"""A served version whose requests end as the test says; and two pretend GPUs."""

from types import SimpleNamespace
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.config_defaults import fill_instance_groups, fill_scheduling
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_config import ModelConfig, read
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.registry import StatsRegistry
from inference_runtime.telemetry.stats import VersionStats

MS = 1_000_000


def model_config(name: str = "m", more: str = "") -> ModelConfig:
    proto = config_from_text(f'name: "{name}" backend: "identity" max_batch_size: 8 {more}')
    fill_scheduling(proto)
    fill_instance_groups(proto, ())
    return read(proto)


def request_of(arm: str = "", rows: int = 1, generation: int = 0) -> InferRequest:
    request = InferRequest(RequestHead("m", "", ()), (), lambda *_: None, None, 0)
    request.arm = arm
    request.generation = generation
    request.plan = SimpleNamespace(batch_size=rows)
    return request


class Served:
    """Version 1 of model `m` in a registry; every request is received at 0."""

    def __init__(
        self, options: MetricsOptions | None = None, *, name: str = "m", more: str = ""
    ) -> None:
        self.registry = StatsRegistry(options, wall_ms=lambda: 1_700_000_000_000)
        self.config = model_config(name, more)
        self.stats = self.load()

    def load(self, version: int = 1) -> VersionStats:
        stats = self.registry.prepare(model=self.config.name, version=version, config=self.config)
        self.registry.publish(stats, load_seconds=0.25)
        return stats

    def execute(self, *requests: InferRequest, gpu: int | None = None) -> None:
        """Waits 1 ms, gathers for 2, infers for 3, writes for 4: answered 11 ms after it was received."""
        stats = self.stats
        device = stats.device(gpu)
        times = ExecutionTimes(1 * MS, 3 * MS, 6 * MS, 10 * MS)
        rows = sum(request.plan.batch_size for request in requests)
        stats.executed(device, times, rows, requests[0])
        stats.succeeded(device, times, requests, 11 * MS)

    def fail(self, fault: RuntimeFault, arm: str = "") -> None:
        self.stats.failed_after_acceptance(request_of(arm), fault, 5 * MS)


class PretendNvml:
    """Two GPUs; the second does not know its power."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    class NVMLError_LibraryNotFound(NVMLError):
        pass

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.energy = 5_000.0
        self.reads = 0

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        self.reads += 1
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Pretend 9000"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=1000, total=4000)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=40, memory=10)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return 75_500

    def nvmlDeviceGetPowerManagementLimit(self, handle: int) -> int:
        return 300_000

    def nvmlDeviceGetTemperature(self, handle: int, _: int) -> int:
        return 51

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> list[int]:
        if handle == 1:
            return [7, 0]
        return [8, 6]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> float:
        return self.energy
