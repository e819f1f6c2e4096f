"""The table of gRPC methods: what each path means to the core."""

from typing import Any, Final

from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, NotReady, RuntimeFault, Unsupported
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_head import Method
from inference_runtime.frontends.grpc_infer import InferMethod
from inference_runtime.frontends.grpc_reflection import ReflectionMethod
from inference_runtime.frontends.grpc_regions import region_methods
from inference_runtime.frontends.grpc_settings import SettingsHandlers
from inference_runtime.frontends.grpc_stream import StreamInferMethod
from inference_runtime.frontends.grpc_unary import AdminMethod, Handler
from inference_runtime.protocol import admin_codec, reflection, service_descriptors

_SERVICE: Final = b"/inference.GRPCInferenceService/"
_HEALTH_CHECK: Final = b"/grpc.health.v1.Health/Check"
Reply = Any  # a protobuf message, of generated modules that have no types
_SERVING: Final = 1
_NOT_SERVING: Final = 2


def method_table(context: GrpcContext, core: CorePort) -> dict[bytes, Method]:
    return {**inference_methods(context), **admin_methods(context, core)}


def inference_methods(context: GrpcContext) -> dict[bytes, Method]:
    """And reflection: all that needs to know the connection it is called on."""
    table: dict[bytes, Method] = {
        _SERVICE + b"ModelInfer": InferMethod(context),
        _SERVICE + b"ModelStreamInfer": StreamInferMethod(context),
    }
    return {**table, **_reflection(context, service_descriptors.health_file())}


def admin_methods(context: GrpcContext, core: CorePort) -> dict[bytes, AdminMethod]:
    handlers = _Handlers(core)
    table: dict[bytes, AdminMethod] = {}
    settings = SettingsHandlers(core)
    for name, (request, handler) in {**handlers.table(), **settings.table()}.items():
        table[_SERVICE + name.encode()] = AdminMethod(context, request, handler)
    for name, method in region_methods(context, core).items():
        table[_SERVICE + name.encode()] = method
    classes = service_descriptors.message_classes(service_descriptors.health_file())
    check, answer = classes["HealthCheckRequest"], classes["HealthCheckResponse"]
    table[_HEALTH_CHECK] = AdminMethod(context, check, handlers.health(answer))
    return table


def _reflection(context: GrpcContext, health: Any) -> dict[bytes, Method]:
    own = {
        package: service_descriptors.reflection_file(package)
        for package in service_descriptors.REFLECTION_PACKAGES
    }
    files = [
        reflection.describe(pb.ModelInferRequest),
        reflection.describe(pb.ModelConfig),
        health,
        *own.values(),
    ]
    return {
        f"/{package}.ServerReflection/ServerReflectionInfo".encode(): ReflectionMethod(
            context, reflection.Reflection(file, files).answer
        )
        for package, file in own.items()
    }


class _Handlers:
    """One method per call; each takes the request message and gives the answer's."""

    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> dict[str, tuple[type[Message], Handler]]:
        return {
            "ServerLive": (pb.ServerLiveRequest, self._server_live),
            "ServerReady": (pb.ServerReadyRequest, self._server_ready),
            "ModelReady": (pb.ModelReadyRequest, self._model_ready),
            "ServerMetadata": (pb.ServerMetadataRequest, self._server_metadata),
            "ModelMetadata": (pb.ModelMetadataRequest, self._model_metadata),
            "ModelConfig": (pb.ModelConfigRequest, self._model_config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self._model_statistics),
            "RepositoryIndex": (pb.RepositoryIndexRequest, self._index),
            "RepositoryModelLoad": (pb.RepositoryModelLoadRequest, self._load),
            "RepositoryModelUnload": (pb.RepositoryModelUnloadRequest, self._unload),
        }

    def health(self, answer: type[Any]) -> Handler:
        async def check(_: Any) -> Reply:
            return answer(status=_SERVING if await self._ready() else _NOT_SERVING)

        return check

    async def _ready(self) -> bool:
        if not self._core.ready():
            return False
        try:
            await self._core.confirm_ready()
        except RuntimeFault:
            return False
        return True

    def _server_live(self, _: Any) -> Reply:
        return pb.ServerLiveResponse(live=self._core.live())

    async def _server_ready(self, _: Any) -> Reply:
        return pb.ServerReadyResponse(ready=await self._ready())

    async def _model_ready(self, request: pb.ModelReadyRequest) -> Reply:
        # Unknown is "not ready" and no error: is_model_ready of the clients raises on any error.
        try:
            ready = self._core.model_ready(request.name, request.version)
        except InvalidArgument:
            raise
        except RuntimeFault:
            ready = False
        if ready:
            try:
                await self._core.confirm_ready(request.name, request.version)
            except NotReady:
                ready = False
        return pb.ModelReadyResponse(ready=ready)

    def _server_metadata(self, _: Any) -> Reply:
        return pb.ServerMetadataResponse(**self._core.server_metadata())

    def _model_metadata(self, request: pb.ModelMetadataRequest) -> Reply:
        return self._core.model_metadata(request.name, request.version)

    def _model_config(self, request: pb.ModelConfigRequest) -> Reply:
        return pb.ModelConfigResponse(config=self._core.model_config(request.name, request.version))

    def _model_statistics(self, request: pb.ModelStatisticsRequest) -> Reply:
        return self._core.model_statistics(request.name, request.version)

    async def _index(self, request: pb.RepositoryIndexRequest) -> Reply:
        _refuse_repository(request.repository_name)
        return admin_codec.index_message(await self._core.repository_index(request.ready))

    async def _load(self, request: pb.RepositoryModelLoadRequest) -> Reply:
        _refuse_repository(request.repository_name)
        parameters = admin_codec.load_parameters(request.parameters)
        await self._core.load(request.model_name, parameters)
        return pb.RepositoryModelLoadResponse()

    async def _unload(self, request: pb.RepositoryModelUnloadRequest) -> Reply:
        _refuse_repository(request.repository_name)
        dependents = admin_codec.unload_dependents(request.parameters)
        await self._core.unload(request.model_name, unload_dependents=dependents)
        return pb.RepositoryModelUnloadResponse()


def _refuse_repository(name: str) -> None:
    if name:
        raise Unsupported("'repository_name' specification is not supported")
