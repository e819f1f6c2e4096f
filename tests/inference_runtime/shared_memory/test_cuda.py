"""CUDA regions against a library that keeps its memory in a dictionary: calls, contexts, bounds."""

import asyncio
import ctypes

import pytest

from inference_runtime.errors import AlreadyExists, Internal, InvalidArgument, Unsupported
from inference_runtime.shared_memory.cuda import CudaDriver, load_driver
from inference_runtime.shared_memory.regions import RegionKind, RegionOptions, Regions

HANDLE = bytes(range(64))
BASE = 0x7000_0000
INVALID_VALUE = 1


def target(pointer):
    """What an argument made by ctypes.byref points at."""
    return pointer._obj


class FakeLibrary:
    """The driver's C functions. One allocation can be opened, by HANDLE, on device 1."""

    def __init__(self, size=256):
        self.memory = bytearray(size)
        self.open_count = 0
        self.current: list[int] = []
        self.retained: list[int] = []

    def cuInit(self, flags):
        return 0

    def cuDeviceGetCount(self, count):
        target(count).value = 2
        return 0

    def cuDeviceGet(self, handle, ordinal):
        target(handle).value = 100 + ordinal.value
        return 0

    def cuDevicePrimaryCtxRetain(self, context, handle):
        self.retained.append(handle.value)
        target(context).value = 1000 + handle.value
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.current.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context):
        self.current.pop()
        return 0

    def cuIpcOpenMemHandle_v2(self, address, handle, flags):
        if bytes(handle.reserved) != HANDLE or self.current != [1101] or flags.value != 1:
            return INVALID_VALUE
        self.open_count += 1
        target(address).value = BASE
        return 0

    def cuMemGetAddressRange_v2(self, base, size, address):
        target(base).value = BASE
        target(size).value = len(self.memory)
        return 0

    def cuIpcCloseMemHandle(self, address):
        self.open_count -= 1
        return 0 if address.value == BASE else INVALID_VALUE

    def cuMemcpyDtoH_v2(self, into, address, size):
        at = address.value - BASE
        into[:] = self.memory[at : at + size.value]
        return 0 if self.current else INVALID_VALUE

    def cuMemcpyHtoD_v2(self, address, data, size):
        at = address.value - BASE
        self.memory[at : at + size.value] = ctypes.string_at(data, size.value)
        return 0 if self.current else INVALID_VALUE


@pytest.fixture
def library():
    return FakeLibrary()


@pytest.fixture
def regions(library):
    return Regions(RegionOptions(enabled=True), find_driver=lambda: CudaDriver(library))


async def test_memory_of_another_process_is_read_and_written(regions, library):
    await regions.register_cuda("r", HANDLE, 1, 200)
    memory = regions.find("r").memory
    library.memory[10:14] = b"\x01\x02\x00\x04"
    assert bytes(memory.read(10, 4)) == b"\x01\x02\x00\x04"
    memory.write(100, memoryview(b"ab\0cd"))
    assert library.memory[99:106] == b"\0ab\0cd\0"
    assert bytes(memory.read(0, 0)) == b""
    memory.write(0, b"")
    (row,) = regions.status(RegionKind.CUDA, "r", local=True)
    assert (row.name, row.device_id, row.byte_size) == ("r", 1, 200)
    assert regions.status(RegionKind.SYSTEM, "", local=True) == []
    regions.unregister(RegionKind.CUDA, "")
    assert library.open_count == 0
    assert library.current == []
    assert library.retained == [101]  # once, however often it was used


@pytest.mark.parametrize(("device", "size"), [(2, 8), (-1, 8), (1, 257), (1, 0)])
async def test_what_is_beyond_device_or_allocation_is_refused(regions, library, device, size):
    with pytest.raises(InvalidArgument, match="failed to register shared memory region 'r'"):
        await regions.register_cuda("r", HANDLE, device, size)
    assert library.open_count == 0
    assert regions.status(RegionKind.CUDA, "", local=True) == []


async def test_a_handle_that_opens_nothing_is_the_clients_fault(regions):
    with pytest.raises(InvalidArgument, match="cuIpcOpenMemHandle_v2 failed with status 1"):
        await regions.register_cuda("r", bytes(64), 1, 8)


async def test_names_are_taken_while_a_region_is_opened(regions, library):
    opening = asyncio.ensure_future(regions.register_cuda("r", HANDLE, 1, 8))
    await asyncio.sleep(0)
    with pytest.raises(AlreadyExists):
        await regions.register_cuda("r", HANDLE, 1, 8)
    await opening
    assert library.open_count == 1


async def test_a_failing_driver_is_an_internal_fault(library):
    driver = CudaDriver(library)
    library.cuMemcpyDtoH_v2 = lambda *_: 700
    with pytest.raises(Internal, match="cuMemcpyDtoH_v2 failed with status 700"):
        driver.read(1, BASE, bytearray(8))
    assert library.current == []


async def test_memory_whose_size_can_not_be_told_is_closed_again(regions, library):
    library.cuMemGetAddressRange_v2 = lambda base, size, address: INVALID_VALUE
    with pytest.raises(Internal, match="cuMemGetAddressRange_v2 failed with status 1"):
        await regions.register_cuda("r", HANDLE, 1, 64)
    assert library.open_count == 0


async def test_without_a_driver_there_are_no_cuda_regions():
    regions = Regions(RegionOptions(enabled=True), find_driver=lambda: None)
    with pytest.raises(Unsupported) as caught:
        await regions.register_cuda("r", HANDLE, 0, 8)
    assert caught.value.text == (
        "failed to register CUDA shared memory region: 'r', GPUs not supported"
    )
    with pytest.raises(InvalidArgument, match="'region name' is necessary to register cuda"):
        await regions.register_cuda("", HANDLE, 0, 8)


def test_a_driver_is_looked_for_where_it_would_be():
    driver = load_driver()
    assert driver is None or driver.device_count >= 0
