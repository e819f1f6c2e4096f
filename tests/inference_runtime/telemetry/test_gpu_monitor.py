"""NVML present, absent, broken and hanging."""

import threading
import time

import pytest

from inference_runtime.telemetry.gpu import GpuMonitor
from inference_runtime.telemetry.telemetry import Telemetry
from tests.inference_runtime.telemetry.world import PretendNvml

SECOND = 1_000_000_000


def until(condition, limit_seconds=10.0):
    end = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


class Clock:
    def __init__(self) -> None:
        self.now_ns = SECOND

    def __call__(self) -> int:
        return self.now_ns


def test_reads_every_device():
    reading = GpuMonitor(load_nvml=PretendNvml).read()
    assert reading.note == ""
    first, second = reading.gpus
    assert (first.uuid, first.index, first.name) == ("GPU-0", 0, "Pretend 9000")
    assert (first.utilization, first.power_watts, first.temperature_celsius) == (0.4, 75.5, 51)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (1000, 4000)
    assert second.power_watts is None


@pytest.mark.parametrize(
    ("minimum", "usable"), [(7.0, (0, 1)), (7.5, (0,)), (8.6, (0,)), (9.0, ())]
)
def test_a_gpu_below_the_least_compute_capability_is_not_used(minimum, usable):
    assert GpuMonitor(load_nvml=PretendNvml).read().usable(minimum) == usable


def test_gpus_say_what_they_can_do():
    assert GpuMonitor(load_nvml=PretendNvml).read().compute_capabilities == {0: 8.6, 1: 7.0}


def test_a_gpu_that_does_not_say_what_it_can_do_may_be_used():
    class Silent(PretendNvml):
        def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> list[int]:
            raise self.NVMLError("Not Supported")

    assert GpuMonitor(load_nvml=Silent).read().usable(7.5) == (0, 1)


def test_energy_counts_from_the_first_reading():
    nvml = PretendNvml()
    monitor = GpuMonitor(load_nvml=lambda: nvml)
    monitor.read()
    nvml.energy += 2_000
    assert monitor.read().gpus[0].energy_joules == 2.0


def test_is_read_at_most_once_a_second_and_never_by_the_reader():
    clock = Clock()
    nvml = PretendNvml()
    monitor = GpuMonitor(load_nvml=lambda: nvml, clock=clock)
    assert monitor.latest().note == "The GPUs have not been read yet."
    until(lambda: nvml.reads == 1 and monitor.latest().gpus)
    for _ in range(20):
        monitor.latest()
    assert nvml.reads == 1
    clock.now_ns += SECOND
    monitor.latest()
    until(lambda: nvml.reads == 2)


def test_a_driver_that_hangs_makes_old_samples_and_says_so():
    clock = Clock()
    hang = threading.Event()

    class Hanging(PretendNvml):
        def nvmlDeviceGetCount(self) -> int:
            if self.reads:
                hang.wait(30)
            return super().nvmlDeviceGetCount()

    monitor = GpuMonitor(load_nvml=Hanging, clock=clock)
    monitor.read()
    clock.now_ns += SECOND
    began = time.monotonic()
    monitor.latest()
    clock.now_ns += 12 * SECOND
    reading = monitor.latest()
    assert time.monotonic() - began < 5
    assert "has not answered for 12 s" in reading.note
    assert len(reading.gpus) == 2
    hang.set()
    until(lambda: monitor.latest().note == "")


def test_without_a_driver_it_says_why():
    nvml = PretendNvml()

    def init() -> None:
        raise nvml.NVMLError_LibraryNotFound("NVML Shared Library Not Found")

    nvml.nvmlInit = init  # type: ignore[method-assign]
    reading = GpuMonitor(load_nvml=lambda: nvml).read()
    assert reading.gpus == ()
    assert reading.note == "No NVIDIA driver on this machine (NVML's library was not found)."


def test_without_the_bindings_it_says_which_package_is_missing():
    def load() -> None:
        raise ImportError("no module named pynvml")

    assert "nvidia-ml-py" in GpuMonitor(load_nvml=load).read().note


def test_a_driver_without_devices_says_so():
    assert GpuMonitor(load_nvml=lambda: PretendNvml(0)).read().note == "NVML finds no GPU here."


def test_this_machines_own_nvml_answers_one_way_or_the_other():
    reading = GpuMonitor().read()
    assert bool(reading.gpus) != bool(reading.note)


async def test_names_the_devices_before_anything_is_loaded():
    telemetry = Telemetry(gpu=GpuMonitor(load_nvml=PretendNvml))
    assert telemetry.gpu.uuid(1) == "gpu-1"
    await telemetry.start()
    assert telemetry.gpu.uuid(1) == "GPU-1"


async def test_a_hanging_driver_does_not_hold_up_the_start():
    hang = threading.Event()

    class Hanging(PretendNvml):
        def nvmlInit(self) -> None:
            hang.wait(30)

    telemetry = Telemetry(gpu=GpuMonitor(load_nvml=Hanging))
    began = time.monotonic()
    await telemetry.start(limit_seconds=0.05)
    assert time.monotonic() - began < 5
    hang.set()


@pytest.mark.gpu
def test_a_real_gpu_says_what_it_is():
    reading = GpuMonitor().read()
    if not reading.gpus:
        pytest.skip(reading.note)
    assert reading.gpus[0].uuid.startswith("GPU-")
    assert (reading.gpus[0].memory_total_bytes or 0) > 1_000_000_000
