"""The gRPC methods of shared memory: register, status, unregister, for both kinds of memory."""

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_unary import AdminMethod
from inference_runtime.frontends.peer import is_loopback
from inference_runtime.protocol import region_codec
from inference_runtime.shared_memory.regions import RegionKind

Reply = Any  # a protobuf message, of generated modules that have no types
RegionHandler = Callable[[Any, bool], Message | Awaitable[Message]]


class RegionMethod(AdminMethod):
    """Its handler is also told whether the client is on loopback."""

    __slots__ = ("_region_handler",)

    def __init__(
        self, context: GrpcContext, request: type[Message], handler: RegionHandler
    ) -> None:
        super().__init__(context, request, lambda message: handler(message, False))
        self._region_handler = handler

    def handle(self, transport: Any, request: Any) -> Message | Awaitable[Message]:
        return self._region_handler(request, is_loopback(transport))


def region_methods(context: GrpcContext, core: CorePort) -> dict[str, RegionMethod]:
    """By the method's name."""
    handlers = _Handlers(core)
    table: dict[str, tuple[type[Message], RegionHandler]] = {
        "SystemSharedMemoryStatus": (
            pb.SystemSharedMemoryStatusRequest,
            handlers.system_status,
        ),
        "SystemSharedMemoryRegister": (
            pb.SystemSharedMemoryRegisterRequest,
            handlers.register_system,
        ),
        "SystemSharedMemoryUnregister": (
            pb.SystemSharedMemoryUnregisterRequest,
            handlers.unregister_system,
        ),
        "CudaSharedMemoryStatus": (pb.CudaSharedMemoryStatusRequest, handlers.cuda_status),
        "CudaSharedMemoryRegister": (pb.CudaSharedMemoryRegisterRequest, handlers.register_cuda),
        "CudaSharedMemoryUnregister": (
            pb.CudaSharedMemoryUnregisterRequest,
            handlers.unregister_cuda,
        ),
    }
    return {
        name: RegionMethod(context, request, handler) for name, (request, handler) in table.items()
    }


class _Handlers:
    def __init__(self, core: CorePort) -> None:
        self._regions = core.regions

    def system_status(self, request: Any, local: bool) -> Reply:
        regions = self._regions.status(RegionKind.SYSTEM, request.name, local=local)
        return region_codec.system_message(regions)

    def register_system(self, request: Any, local: bool) -> Reply:
        self._regions.check_client(local=local)
        self._regions.register_system(request.name, request.key, request.offset, request.byte_size)
        return pb.SystemSharedMemoryRegisterResponse()

    def unregister_system(self, request: Any, local: bool) -> Reply:
        self._regions.check_client(local=local)
        self._regions.unregister(RegionKind.SYSTEM, request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    def cuda_status(self, request: Any, local: bool) -> Reply:
        regions = self._regions.status(RegionKind.CUDA, request.name, local=local)
        return region_codec.cuda_message(regions)

    async def register_cuda(self, request: Any, local: bool) -> Reply:
        self._regions.check_client(local=local)
        handle = region_codec.check_handle(request.raw_handle)
        await self._regions.register_cuda(
            request.name, handle, request.device_id, request.byte_size
        )
        return pb.CudaSharedMemoryRegisterResponse()

    def unregister_cuda(self, request: Any, local: bool) -> Reply:
        self._regions.check_client(local=local)
        self._regions.unregister(RegionKind.CUDA, request.name)
        return pb.CudaSharedMemoryUnregisterResponse()
