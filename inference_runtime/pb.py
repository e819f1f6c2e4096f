"""The v2 and model-config protobuf messages, from one place.

They come from tritonclient's generated modules: two copies of the same messages cannot live in one
process, and clients in our tests bring theirs along. Nothing else of tritonclient is used here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from google.protobuf.message import Message

_PACKAGE = "tritonclient.grpc"


@contextmanager
def _without_the_client() -> Iterator[None]:
    """The package of the generated modules is a whole client, which imports grpcio: its `__init__` is left out.

    Who wants the client later imports it as ever, and finds the modules that are here already.
    """
    spec = find_spec("tritonclient")
    if _PACKAGE in sys.modules or spec is None or not spec.submodule_search_locations:
        yield
        return
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(Path(place, "grpc")) for place in spec.submodule_search_locations]
    sys.modules[_PACKAGE] = package
    try:
        yield
    finally:
        del sys.modules[_PACKAGE]


with _without_the_client():
    from tritonclient.grpc.model_config_pb2 import (
        BatchInput,
        BatchOutput,
        DataType,
        ModelConfig,
        ModelDynamicBatching,
        ModelEnsembling,
        ModelInput,
        ModelInstanceGroup,
        ModelOptimizationPolicy,
        ModelOutput,
        ModelParameter,
        ModelQueuePolicy,
        ModelSequenceBatching,
        ModelTensorReshape,
        ModelTransactionPolicy,
        ModelVersionPolicy,
        ModelWarmup,
    )
    from tritonclient.grpc.service_pb2 import (
        CudaSharedMemoryRegisterRequest,
        CudaSharedMemoryRegisterResponse,
        CudaSharedMemoryStatusRequest,
        CudaSharedMemoryStatusResponse,
        CudaSharedMemoryUnregisterRequest,
        CudaSharedMemoryUnregisterResponse,
        InferBatchStatistics,
        InferParameter,
        InferResponseStatistics,
        InferStatistics,
        InferTensorContents,
        LogSettingsRequest,
        LogSettingsResponse,
        MemoryUsage,
        ModelConfigRequest,
        ModelConfigResponse,
        ModelInferRequest,
        ModelInferResponse,
        ModelMetadataRequest,
        ModelMetadataResponse,
        ModelReadyRequest,
        ModelReadyResponse,
        ModelRepositoryParameter,
        ModelStatistics,
        ModelStatisticsRequest,
        ModelStatisticsResponse,
        ModelStreamInferResponse,
        RepositoryIndexRequest,
        RepositoryIndexResponse,
        RepositoryModelLoadRequest,
        RepositoryModelLoadResponse,
        RepositoryModelUnloadRequest,
        RepositoryModelUnloadResponse,
        ServerLiveRequest,
        ServerLiveResponse,
        ServerMetadataRequest,
        ServerMetadataResponse,
        ServerReadyRequest,
        ServerReadyResponse,
        StatisticDuration,
        SystemSharedMemoryRegisterRequest,
        SystemSharedMemoryRegisterResponse,
        SystemSharedMemoryStatusRequest,
        SystemSharedMemoryStatusResponse,
        SystemSharedMemoryUnregisterRequest,
        SystemSharedMemoryUnregisterResponse,
        TraceSettingRequest,
        TraceSettingResponse,
    )

__all__ = [
    "BatchInput",
    "BatchOutput",
    "CudaSharedMemoryRegisterRequest",
    "CudaSharedMemoryRegisterResponse",
    "CudaSharedMemoryStatusRequest",
    "CudaSharedMemoryStatusResponse",
    "CudaSharedMemoryUnregisterRequest",
    "CudaSharedMemoryUnregisterResponse",
    "DataType",
    "InferBatchStatistics",
    "InferParameter",
    "InferResponseStatistics",
    "InferStatistics",
    "InferTensorContents",
    "LogSettingsRequest",
    "LogSettingsResponse",
    "MemoryUsage",
    "Message",
    "ModelConfig",
    "ModelConfigRequest",
    "ModelConfigResponse",
    "ModelDynamicBatching",
    "ModelEnsembling",
    "ModelInferRequest",
    "ModelInferResponse",
    "ModelInput",
    "ModelInstanceGroup",
    "ModelMetadataRequest",
    "ModelMetadataResponse",
    "ModelOptimizationPolicy",
    "ModelOutput",
    "ModelParameter",
    "ModelQueuePolicy",
    "ModelReadyRequest",
    "ModelReadyResponse",
    "ModelRepositoryParameter",
    "ModelSequenceBatching",
    "ModelStatistics",
    "ModelStatisticsRequest",
    "ModelStatisticsResponse",
    "ModelStreamInferResponse",
    "ModelTensorReshape",
    "ModelTransactionPolicy",
    "ModelVersionPolicy",
    "ModelWarmup",
    "RepositoryIndexRequest",
    "RepositoryIndexResponse",
    "RepositoryModelLoadRequest",
    "RepositoryModelLoadResponse",
    "RepositoryModelUnloadRequest",
    "RepositoryModelUnloadResponse",
    "ServerLiveRequest",
    "ServerLiveResponse",
    "ServerMetadataRequest",
    "ServerMetadataResponse",
    "ServerReadyRequest",
    "ServerReadyResponse",
    "StatisticDuration",
    "SystemSharedMemoryRegisterRequest",
    "SystemSharedMemoryRegisterResponse",
    "SystemSharedMemoryStatusRequest",
    "SystemSharedMemoryStatusResponse",
    "SystemSharedMemoryUnregisterRequest",
    "SystemSharedMemoryUnregisterResponse",
    "TraceSettingRequest",
    "TraceSettingResponse",
]
