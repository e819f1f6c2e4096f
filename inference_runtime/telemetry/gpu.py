"""GPUs as NVML sees them: identity, utilisation, memory, power, temperature; or why there are none.

NVML is read on a thread of its own, at most once a second, and readers get the last sample: a driver
that hangs makes samples old, never the event loop slow.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

MIN_AGE_NS = 1_000_000_000
HANG_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class GpuSample:
    """`None`: this device or driver does not say."""

    uuid: str
    index: int
    name: str
    utilization: float | None  # 0..1
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: float | None
    energy_joules: float | None  # since this process began to look
    compute_capability: float | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    gpus: tuple[GpuSample, ...]
    note: str  # why there are none, or why they are old; "" when all is well
    at_ns: int = 0

    def usable(self, min_compute_capability: float) -> tuple[int, ...]:
        """Indexes of those that models may be placed on. One that does not say what it can do may be used."""
        return tuple(
            gpu.index
            for gpu in self.gpus
            if gpu.compute_capability is None or gpu.compute_capability >= min_compute_capability
        )

    @property
    def compute_capabilities(self) -> dict[int, float]:
        """By index, of those that say it."""
        return {
            gpu.index: gpu.compute_capability
            for gpu in self.gpus
            if gpu.compute_capability is not None
        }


def load_pynvml() -> Any:
    import pynvml

    return pynvml


class GpuMonitor:
    """`latest()` never blocks; `read()` does, for a start-up that wants to know."""

    def __init__(
        self,
        *,
        load_nvml: Callable[[], Any] = load_pynvml,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._load_nvml = load_nvml
        self._clock = clock
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._energy_start: dict[str, float] = {}
        self._reading = GpuReading((), "The GPUs have not been read yet.")
        self._began_ns = 0  # of the read that is under way; 0: none is

    def uuid(self, index: int) -> str:
        """The name of a GPU in labels; its index where NVML has not named it."""
        for gpu in self._reading.gpus:
            if gpu.index == index:
                return gpu.uuid
        return f"gpu-{index}"

    def latest(self) -> GpuReading:
        """The last reading; starts a fresh one in the background when it is older than a second."""
        now_ns = self._clock()
        reading, began_ns = self._reading, self._began_ns
        if began_ns:
            if now_ns - began_ns > HANG_NS:
                seconds = (now_ns - began_ns) // 1_000_000_000
                note = f"NVML has not answered for {seconds} s; the driver may hang."
                return GpuReading(reading.gpus, note, reading.at_ns)
        elif now_ns - reading.at_ns >= MIN_AGE_NS or not reading.at_ns:
            self._began_ns = now_ns
            threading.Thread(target=self.read, name="gpu-monitor", daemon=True).start()
        return reading

    def read(self) -> GpuReading:
        """Reads now, on the calling thread."""
        with self._lock:
            self._began_ns = self._began_ns or self._clock()
            try:
                gpus, note = self._sample()
            except Exception as error:  # noqa: BLE001  NVML raises classes of its own, made at run time
                gpus, note = (), _reason(error)
            self._reading = reading = GpuReading(gpus, note, self._clock())
            self._began_ns = 0
            return reading

    def _sample(self) -> tuple[tuple[GpuSample, ...], str]:
        if self._nvml is None:
            nvml = self._load_nvml()
            nvml.nvmlInit()
            self._nvml = nvml
        count = self._nvml.nvmlDeviceGetCount()
        if count == 0:
            return (), "NVML finds no GPU here."
        return tuple(self._device(index) for index in range(count)), ""

    def _device(self, index: int) -> GpuSample:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))

        def ask(function: Callable[[], Any]) -> Any:
            # A vGPU or an old card answers some questions with "not supported": the rest still counts.
            try:
                return function()
            except nvml.NVMLError:
                return None

        memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        rates = ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        energy = _scaled(ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
        return GpuSample(
            uuid=uuid,
            index=index,
            name=_text(ask(lambda: nvml.nvmlDeviceGetName(handle)) or ""),
            utilization=None if rates is None else rates.gpu / 100,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            power_watts=_scaled(ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))),
            power_limit_watts=_scaled(ask(lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle))),
            temperature_celsius=ask(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            energy_joules=self._energy_since_start(uuid, energy),
            compute_capability=_capability(
                ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
            ),
        )

    def _energy_since_start(self, uuid: str, energy: float | None) -> float | None:
        if energy is None:
            return None
        return energy - self._energy_start.setdefault(uuid, energy)


def _scaled(value: float | None) -> float | None:
    """NVML counts in thousandths: milliwatts, millijoules."""
    return None if value is None else value / 1000


def _capability(found: Sequence[int] | None) -> float | None:
    """(8, 6) is 8.6, as the command line says it."""
    return None if found is None else float(f"{found[0]}.{found[1]}")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "NVML's Python bindings (nvidia-ml-py) are not installed."
    if type(error).__name__ == "NVMLError_LibraryNotFound":
        return "No NVIDIA driver on this machine (NVML's library was not found)."
    logger.warning("reading NVML failed: %s", error)
    return f"NVML cannot be read: {error}"
