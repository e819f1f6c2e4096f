"""The regions that clients have registered: names, bounds, who uses them, and when they go. Event loop only."""

import asyncio
import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from inference_runtime.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
    Unsupported,
)
from inference_runtime.shared_memory.cuda import CudaDriver, CudaMemory, load_driver
from inference_runtime.shared_memory.memory import Memory
from inference_runtime.shared_memory.posix import PosixMemory
from inference_runtime.spec.region_span import RegionSpan

_log = logging.getLogger(__name__)

DISABLED: Final = (
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
)
LOCAL_ONLY: Final = (
    "Client shared memory is disabled for clients outside of loopback. Start the server with "
    "'--switchyard-shm-remote=true' to enable."
)
_UINT64_MAX: Final = 2**64 - 1
_NAME_LIMIT: Final = 1024


class RegionKind(enum.Enum):
    """The values are the protocol's words."""

    SYSTEM = "system"
    CUDA = "cuda"


_LABEL: Final = {RegionKind.SYSTEM: "system", RegionKind.CUDA: "CUDA"}


@dataclass(frozen=True, slots=True)
class RegionOptions:
    enabled: bool = False
    remote: bool = False  # also for clients outside of loopback
    max_regions: int = 512  # each holds a descriptor
    max_copied_bytes: int = 4 << 30  # of inputs, held by requests in flight


@dataclass(slots=True, eq=False)
class Region:
    name: str
    kind: RegionKind
    memory: Memory
    byte_size: int
    key: str = ""  # of a system region
    offset: int = 0
    device_id: int = 0  # of a CUDA region
    users: int = 0  # requests in flight
    leaving: bool = False  # unregistered, and goes with its last user

    def check(self, span: RegionSpan) -> None:
        if span.offset < 0 or span.offset >= self.byte_size:
            raise InvalidArgument(f"Invalid offset for shared memory region: '{self.name}'")
        if span.byte_size < 0 or span.offset + span.byte_size > _UINT64_MAX:
            raise InvalidArgument(
                f"Integer overflow detected: byte_size ({span.byte_size}) + offset ({span.offset}) "
                f"exceeds maximum value ({_UINT64_MAX})"
            )
        if span.offset + span.byte_size > self.byte_size:
            raise InvalidArgument(
                f"Invalid offset + byte size for shared memory region: '{self.name}'"
            )


@dataclass(slots=True)
class Regions:
    """One per server. `local`: the client's address is on loopback."""

    options: RegionOptions = field(default_factory=RegionOptions)
    find_driver: Callable[[], CudaDriver | None] = load_driver
    copied_bytes: int = 0
    _by_name: dict[str, Region] = field(default_factory=dict)
    _opening: set[str] = field(default_factory=set)
    _driver: CudaDriver | None = None

    def check_client(self, *, local: bool) -> None:
        """Raises Unsupported for who may not have shared memory at all."""
        if not self.options.enabled:
            raise Unsupported(DISABLED)
        if not (local or self.options.remote):
            raise Unsupported(LOCAL_ONLY)

    def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        if not name:
            raise _nameless(RegionKind.SYSTEM)
        self._check_new(name)
        memory = PosixMemory(name, key, offset, byte_size)
        self._by_name[name] = Region(
            name, RegionKind.SYSTEM, memory, byte_size, key=key, offset=offset
        )

    async def register_cuda(self, name: str, handle: bytes, device_id: int, byte_size: int) -> None:
        """Off the event loop: the first use of a device may take long."""
        if not name:
            raise _nameless(RegionKind.CUDA)
        self._check_new(name)
        self._opening.add(name)
        try:
            memory = await asyncio.to_thread(self._open_cuda, name, handle, device_id, byte_size)
        finally:
            self._opening.discard(name)
        self._by_name[name] = Region(name, RegionKind.CUDA, memory, byte_size, device_id=device_id)

    def status(self, kind: RegionKind, name: str, *, local: bool) -> list[Region]:
        """One region, or all of a kind for the name ""; who may not have shared memory sees none."""
        if local or self.options.remote:
            return self._chosen(kind, name)
        if name:
            raise _no_region_of(kind, name)
        return []

    def _chosen(self, kind: RegionKind, name: str) -> list[Region]:
        if not name:
            return [region for region in self._by_name.values() if region.kind is kind]
        region = self._by_name.get(name)
        if region is None:
            raise _no_region_of(kind, name)
        _check_kind(region, kind)
        return [region]

    def unregister(self, kind: RegionKind, name: str) -> None:
        """One region, or all of a kind for the name ""; one that is in use goes with its last user."""
        if name and name not in self._by_name:
            return
        for region in self._chosen(kind, name):
            region.leaving = True
            self._close_unused(region)

    def find(self, name: str) -> Region:
        region = self._by_name.get(name)
        if region is None:
            raise NotFound(f"Unable to find shared memory region: '{name}'")
        return region

    def acquire(self, regions: set[Region], copied_bytes: int) -> None:
        """Until `release` with the same arguments; raises Unavailable when too much is copied already."""
        if self.copied_bytes + copied_bytes > self.options.max_copied_bytes:
            raise Unavailable(
                "requests in flight hold as many bytes of shared memory inputs as they may; try again"
            )
        self.copied_bytes += copied_bytes
        for region in regions:
            region.users += 1

    def release(self, regions: set[Region], copied_bytes: int) -> None:
        self.copied_bytes -= copied_bytes
        for region in regions:
            region.users -= 1
            self._close_unused(region)

    def close(self) -> None:
        """The end of the server: what is still in use belongs to requests that nobody waits for."""
        for kind in RegionKind:
            self.unregister(kind, "")

    def _check_new(self, name: str) -> None:
        if name in self._by_name or name in self._opening:
            raise AlreadyExists(f"shared memory region '{name}' already in manager")
        if len(name) > _NAME_LIMIT:
            raise InvalidArgument(
                f"the name of a shared memory region may have {_NAME_LIMIT} characters"
            )
        if len(self._by_name) + len(self._opening) >= self.options.max_regions:
            raise Unavailable(
                f"failed to register shared memory region '{name}': the server holds "
                f"{self.options.max_regions} regions, as many as it may"
            )

    def _open_cuda(self, name: str, handle: bytes, device_id: int, byte_size: int) -> Memory:
        driver = self._driver = self._driver or self.find_driver()
        if driver is None:
            raise Unsupported(
                f"failed to register CUDA shared memory region: '{name}', GPUs not supported"
            )
        return CudaMemory(name, driver, handle, device_id, byte_size)

    def _close_unused(self, region: Region) -> None:
        if not region.leaving or region.users:
            return
        del self._by_name[region.name]
        try:
            region.memory.close()
        except (OSError, RuntimeFault):
            _log.exception("the shared memory behind region '%s' could not be closed", region.name)


def _no_region_of(kind: RegionKind, name: str) -> NotFound:
    return NotFound(f"Unable to find {kind.value} shared memory region: '{name}'")


def _nameless(kind: RegionKind) -> InvalidArgument:
    return InvalidArgument(
        f"'region name' is necessary to register {kind.value} shared memory region"
    )


def _check_kind(region: Region, kind: RegionKind) -> None:
    if region.kind is not kind:
        raise InvalidArgument(
            f"The region named '{region.name}' is registered as {_LABEL[region.kind]} shared memory, "
            f"not {_LABEL[kind]} shared memory"
        )
