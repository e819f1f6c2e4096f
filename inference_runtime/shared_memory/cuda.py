"""CUDA memory of another process, opened by its IPC handle through the driver's own library.

Nothing of CUDA is imported or linked: where `libcuda.so.1` is, its C interface is called, and where it
is not, `load_driver` says so.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final, Protocol

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.shared_memory.memory import invalid_registration
from inference_runtime.spec.messages import Bytes

HANDLE_SIZE: Final = 64
_LIBRARY: Final = "libcuda.so.1"
_LAZY_PEER_ACCESS: Final = 1  # the only flag cuIpcOpenMemHandle knows
_SUCCESS: Final = 0


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_SIZE)]


class Library(Protocol):
    """libcuda, as ctypes shows it: functions by name."""

    def __getattr__(self, name: str) -> Callable[..., int]: ...


class CudaDriver:
    """The few calls that regions need, each with its device's primary context current."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._call("cuInit", ctypes.c_uint(0))

    @property
    def device_count(self) -> int:
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def open(self, device: int, handle: bytes) -> int:
        """The address of another process' allocation."""
        address = ctypes.c_uint64()
        raw = IpcHandle.from_buffer_copy(handle)
        flags = ctypes.c_uint(_LAZY_PEER_ACCESS)
        self._on(device, "cuIpcOpenMemHandle_v2", ctypes.byref(address), raw, flags)
        return address.value

    def size(self, device: int, address: int) -> int:
        """Bytes of the allocation that begins at `address`."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        where = ctypes.c_uint64(address)
        self._on(device, "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), where)
        return base.value + size.value - address

    def close(self, device: int, address: int) -> None:
        self._on(device, "cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def read(self, device: int, address: int, into: bytearray) -> None:
        target = (ctypes.c_ubyte * len(into)).from_buffer(into)
        size = ctypes.c_size_t(len(into))
        self._on(device, "cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), size)

    def write(self, device: int, address: int, data: bytes) -> None:
        size = ctypes.c_size_t(len(data))
        self._on(device, "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_char_p(data), size)

    def _on(self, device: int, name: str, *arguments: Any) -> None:
        """Contexts are current per thread, and regions are used from several."""
        self._call("cuCtxPushCurrent_v2", self._context(device))
        try:
            self._call(name, *arguments)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _context(self, device: int) -> ctypes.c_void_p:
        context = self._contexts.get(device)
        if context is None:
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            self._call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self._contexts[device] = context
        return context

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != _SUCCESS:
            raise Internal(f"CUDA driver: {name} failed with status {status}")


class CudaMemory:
    """The first `byte_size` bytes of an allocation of the client's."""

    __slots__ = ("_address", "_device", "_driver")

    def __init__(
        self, name: str, driver: CudaDriver, handle: bytes, device: int, byte_size: int
    ) -> None:
        if not 0 <= device < driver.device_count or byte_size == 0:
            raise invalid_registration(name)
        try:
            address = driver.open(device, handle)
        except RuntimeFault as fault:
            # A handle that is stale or made up is the client's fault.
            raise InvalidArgument(
                f"failed to open CUDA shared memory region '{name}': {fault.text}"
            ) from fault
        self._driver, self._device, self._address = driver, device, address
        try:
            if driver.size(device, address) < byte_size:
                raise invalid_registration(name)
        except RuntimeFault:
            self.close()
            raise

    def read(self, offset: int, size: int) -> bytearray:
        data = bytearray(size)
        if size:
            self._driver.read(self._device, self._address + offset, data)
        return data

    def write(self, offset: int, data: Bytes) -> None:
        if len(data):
            self._driver.write(self._device, self._address + offset, bytes(data))

    def close(self) -> None:
        self._driver.close(self._device, self._address)


def load_driver() -> CudaDriver | None:
    """None where there is no driver, or none that works."""
    try:
        return CudaDriver(ctypes.CDLL(_LIBRARY))
    except (OSError, RuntimeFault):
        return None
