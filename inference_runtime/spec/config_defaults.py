"""The normal form of a config: what Triton fills in when a field is left out. Pure; changes the proto given."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class KnownPlatform:
    backend: str
    platform: str
    filename: str


# In the order in which they are tried.
KNOWN_PLATFORMS: tuple[KnownPlatform, ...] = (
    KnownPlatform("tensorflow", "tensorflow_savedmodel", "model.savedmodel"),
    KnownPlatform("tensorflow", "tensorflow_graphdef", "model.graphdef"),
    KnownPlatform("tensorrt", "tensorrt_plan", "model.plan"),
    KnownPlatform("onnxruntime", "onnxruntime_onnx", "model.onnx"),
    KnownPlatform("openvino", "", "model.xml"),
    KnownPlatform("pytorch", "pytorch_libtorch", "model.pt"),
    KnownPlatform("pytorch", "libtorch", "model.pt"),
    KnownPlatform("pytorch", "torch_aoti", "model.pt2"),
    KnownPlatform("python", "", "model.py"),
)
ENSEMBLE = "ensemble"
_TWO_ON_CPU = ("onnxruntime", "tensorflow")  # backends whose KIND_CPU groups count 2 by default


def fill_identity(proto: Any, name: str, files: Collection[str]) -> None:
    """Name, backend, platform, file name and version policy, as they are settled at poll time.

    `files` are the names in the model's first version directory. Raises InvalidArgument when
    nothing tells the backend.
    """
    if not proto.name:
        proto.name = name
    if proto.platform != ENSEMBLE:
        _fill_backend(proto, files)
    policy = proto.version_policy
    if policy.WhichOneof("policy_choice") in (None, "latest") and not policy.latest.num_versions:
        policy.latest.num_versions = 1


def _fill_backend(proto: Any, files: Collection[str]) -> None:
    known = next((row for row in KNOWN_PLATFORMS if _tells(proto, row, files)), None)
    if known is not None:
        proto.backend = known.backend
        if not proto.platform:
            proto.platform = known.platform
        if not proto.default_model_filename:
            proto.default_model_filename = known.filename
    elif not (proto.backend or proto.platform or proto.default_model_filename):
        backend = proto.name.partition(".")[2]
        if not backend:
            raise InvalidArgument(
                f"Invalid model name: Could not determine backend for model '{proto.name}' with no "
                "backend in model configuration. Expected model name of the form "
                "'model.<backend_name>'."
            )
        proto.backend = backend
        proto.default_model_filename = f"model.{backend}"


def _tells(proto: Any, row: KnownPlatform, files: Collection[str]) -> bool:
    """Whether a row of the table fits what the config says, or, when it says nothing, the files."""
    if proto.backend:
        if proto.backend != row.backend:
            return False
        if proto.platform:
            return bool(proto.platform == row.platform)
        return proto.default_model_filename in ("", row.filename) or not _several(row.backend)
    if proto.platform or proto.default_model_filename:
        # Either tells; whether they fit each other is the rules' affair.
        platform = row.platform and proto.platform == row.platform
        return bool(platform or proto.default_model_filename == row.filename)
    return row.filename in files


def _several(backend: str) -> bool:
    return sum(row.backend == backend for row in KNOWN_PLATFORMS) > 1


def fill_scheduling(proto: Any) -> None:
    """Preferred sizes and the flags of pinned memory."""
    if proto.HasField("dynamic_batching"):
        batching = proto.dynamic_batching
        if not batching.preferred_batch_size and proto.max_batch_size > 0:
            batching.preferred_batch_size.append(proto.max_batch_size)
    if proto.platform != ENSEMBLE:
        for memory in ("input_pinned_memory", "output_pinned_memory"):
            # One that is there says what it means, also where it says no, which is a default.
            if not proto.optimization.HasField(memory):
                getattr(proto.optimization, memory).enable = True


def fill_instance_groups(proto: Any, usable_gpus: Sequence[int]) -> None:
    if proto.platform == ENSEMBLE:
        return
    if not proto.instance_group:
        proto.instance_group.add(name=proto.name)
    kinds = pb.ModelInstanceGroup
    for index, group in enumerate(proto.instance_group):
        if not group.name:
            group.name = f"{proto.name}_{index}"
        if group.kind == kinds.KIND_AUTO:
            on_gpu = bool(usable_gpus) and set(group.gpus) <= set(usable_gpus)
            group.kind = kinds.KIND_GPU if on_gpu else kinds.KIND_CPU
        if group.count < 1:
            two = group.kind == kinds.KIND_CPU and proto.backend in _TWO_ON_CPU
            group.count = 2 if two else 1
        if group.kind == kinds.KIND_GPU and not group.gpus:
            group.gpus.extend(usable_gpus)
