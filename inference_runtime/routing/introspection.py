"""What the server says about itself and its models: metadata, index, statistics."""

from collections.abc import Iterable, Mapping
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.lifecycle.registry import ModelRegistry, VersionRecord
from inference_runtime.repository.repository import DUPLICATE
from inference_runtime.spec.model_config import TensorSpec
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.spec.states import IndexEntry, ModelState
from inference_runtime.telemetry.statistics_message import model_statistics

EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
    "switchyard_traffic",
    "switchyard_statistics",
)


def server_metadata(server_id: str, version: str, more: Iterable[str] = ()) -> dict[str, Any]:
    """`more` are extensions that only some servers have."""
    return {"name": server_id, "version": version, "extensions": [*EXTENSIONS, *more]}


def model_metadata(registry: ModelRegistry, name: str, version: str) -> pb.ModelMetadataResponse:
    loaded = registry.find(name, version)
    config = loaded.config
    versions = [loaded.number] if version else list(registry.serving(name))
    message = pb.ModelMetadataResponse(
        name=name,
        versions=[str(number) for number in versions],
        platform=config.platform or config.backend,
    )
    lead = [-1] if config.batching else []
    for spec in config.inputs:
        message.inputs.append(_tensor(spec, lead))
    for spec in config.outputs:
        message.outputs.append(_tensor(spec, lead))
    return message


def _tensor(spec: TensorSpec, lead: list[int]) -> Any:
    return pb.ModelMetadataResponse.TensorMetadata(
        name=spec.name, datatype=spec.datatype, shape=[*lead, *spec.dims]
    )


def repository_index(
    registry: ModelRegistry, directories: Mapping[str, bool], *, ready_only: bool
) -> list[IndexEntry]:
    """Directories there are now (→ whether twice) and models there were loads of; by name, versions ascending."""
    entries: list[IndexEntry] = []
    for name in sorted({*directories, *registry.names()}, key=lambda name: (bare_name(name), name)):
        if directories.get(name, False):
            entries.append(IndexEntry(name, "", ModelState.UNAVAILABLE.value, DUPLICATE))
        else:
            entries += _model_entries(registry, name)
    if ready_only:
        return [entry for entry in entries if entry.state == ModelState.READY.value]
    return entries


def _model_entries(registry: ModelRegistry, name: str) -> list[IndexEntry]:
    record = registry.record(name)
    if record is None or not record.versions:
        return [IndexEntry(bare_name(name))]
    return [
        IndexEntry(bare_name(name), str(number), version.state.value, _reason(version))
        for number, version in sorted(record.versions.items())
    ]


def _reason(version: VersionRecord) -> str:
    """A version that serves has one while its processes are dead."""
    return version.reason or (version.loaded.trouble if version.loaded is not None else "")


def statistics(registry: ModelRegistry, name: str, version: str) -> pb.ModelStatisticsResponse:
    """Of READY versions only; asking for others is the caller's mistake, by the protocol."""
    response = pb.ModelStatisticsResponse()
    for loaded in _asked(registry, name, version):
        response.model_stats.append(model_statistics(loaded.stats))
    return response


def _asked(registry: ModelRegistry, name: str, version: str) -> list[LoadedVersion]:
    names = [name] if name else registry.names()
    if name and not registry.serving(name):
        raise InvalidArgument(f"requested model '{name}' is not available")
    if not version:
        return [loaded for each in names for loaded in registry.serving(each).values()]
    try:
        return [registry.find(name, version)]
    except RuntimeFault as fault:
        raise InvalidArgument(
            f"requested model version is not available for model '{name}'"
        ) from fault
