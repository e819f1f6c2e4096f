"""From a config's execution accelerators to ONNX Runtime's execution providers and their options; pure.

Names, values and messages are those of Triton's backend. TensorRT parameters that only ONNX Runtime knows
are taken too.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.spec.model_config import InstanceKind, ModelConfig, TensorSpec

CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
CPU = "CPUExecutionProvider"

_BOOLEANS = {"1": "1", "0": "0", "true": "1", "false": "0"}
_PRECISIONS = {
    "FP32": (),
    "FP16": (("trt_fp16_enable", "1"),),
    "BF16": (("trt_bf16_enable", "1"),),
    "INT8": (("trt_int8_enable", "1"),),
}


@dataclass(frozen=True, slots=True)
class Provider:
    """Hashable, as part of what makes two sessions alike."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


def cpu_providers(proto: Any) -> tuple[Provider, ...]:
    """In order of preference, the plain CPU last."""
    wanted = []
    for entry in proto.optimization.execution_accelerators.cpu_execution_accelerator:
        if entry.name != "openvino":
            raise _unknown_accelerator(entry.name)
        wanted.append(Provider(OPENVINO, _sorted({"device_type": "CPU", **dict(entry.parameters)})))
    return (*wanted, Provider(CPU))


def gpu_providers(proto: Any, device: int, parameters: Mapping[str, str]) -> tuple[Provider, ...]:
    """`parameters`: the model's, where older configs keep options of CUDA. CUDA and CPU always come last."""
    wanted = []
    cuda = {"device_id": str(device), **_older_cuda_options(parameters)}
    for entry in proto.optimization.execution_accelerators.gpu_execution_accelerator:
        if entry.name == "cuda":
            cuda.update(entry.parameters)
        elif entry.name == "tensorrt":
            options = {"device_id": str(device), **_tensorrt_options(entry.parameters)}
            wanted.append(Provider(TENSORRT, _sorted(options)))
        else:
            raise _unknown_accelerator(entry.name)
    return (*wanted, Provider(CUDA, _sorted(cuda)), Provider(CPU))


def asked_gpu_providers(proto: Any) -> tuple[str, ...]:
    """What the GPU accelerators of a config stand for, whatever its instances are; checks their parameters."""
    entries = proto.optimization.execution_accelerators.gpu_execution_accelerator
    if not entries:
        return ()
    return tuple(p.name for p in gpu_providers(proto, 0, {}) if p.name != CPU)


def check_devices(config: ModelConfig) -> None:
    """Accelerators for a GPU want an instance there: on a CPU nobody would notice that they do nothing."""
    entries = config.proto.optimization.execution_accelerators.gpu_execution_accelerator
    on_gpu = any(group.kind is InstanceKind.GPU for group in config.instance_groups)
    if entries and not on_gpu:
        names = ", ".join(f"'{entry.name}'" for entry in entries)
        raise Unavailable(
            f"model '{config.name}' asks for the GPU Execution Accelerator {names}, but none of its "
            "instances is on a GPU"
        )


def _unknown_accelerator(name: str) -> InvalidArgument:
    return InvalidArgument(f"unknown Execution Accelerator '{name}' is requested")


def _sorted(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(options.items()))


# TensorRT


def _tensorrt_options(parameters: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in parameters.items():
        if key == "precision_mode":
            if value not in _PRECISIONS:
                raise InvalidArgument(f"unsupported precision mode '{value}' is requested")
            options.update(_PRECISIONS[value])
            continue
        if key not in _TENSORRT_KEYS:
            raise InvalidArgument(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator"
            )
        name, read = _TENSORRT_KEYS[key]
        options[name] = read(value)
    return options


def _boolean(value: str) -> str:
    if value not in _BOOLEANS:
        raise InvalidArgument(f"failed to convert '{value}' to boolean")
    return _BOOLEANS[value]


def _integer(value: str) -> str:
    if re.fullmatch(r"-?[0-9]+", value) is None:
        raise InvalidArgument(f"failed to convert '{value}' to integral number")
    return value


def _size(value: str) -> str:
    if not value.isdecimal():
        raise InvalidArgument(f"failed to convert '{value}' to unsigned long long integral number")
    return value


def _as_it_is(value: str) -> str:
    return value


def _same_name(
    read: Callable[[str], str], names: Iterable[str]
) -> dict[str, tuple[str, Callable[[str], str]]]:
    return {name: (name, read) for name in names}


_TENSORRT_KEYS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "max_workspace_size_bytes": ("trt_max_workspace_size", _size),
    "int8_calibration_table_name": ("trt_int8_calibration_table_name", _as_it_is),
    "int8_use_native_calibration_table": ("trt_int8_use_native_calibration_table", _boolean),
    **_same_name(
        _integer,
        (
            "trt_max_partition_iterations", "trt_min_subgraph_size", "trt_dla_core",
            "trt_builder_optimization_level", "trt_auxiliary_streams", "trt_ep_context_embed_mode",
        ),
    ),
    **_same_name(
        _boolean,
        (
            "trt_dla_enable", "trt_engine_cache_enable", "trt_dump_subgraphs",
            "trt_force_sequential_engine_build", "trt_context_memory_sharing_enable",
            "trt_layer_norm_fp32_fallback", "trt_timing_cache_enable", "trt_force_timing_cache",
            "trt_detailed_build_log", "trt_build_heuristics_enable", "trt_sparsity_enable",
            "trt_cuda_graph_enable", "trt_dump_ep_context_model", "trt_weight_stripped_engine_enable",
            "trt_load_user_initializer", "trt_engine_hw_compatible", "trt_engine_decryption_enable",
        ),
    ),
    **_same_name(
        _as_it_is,
        (
            "trt_engine_cache_path", "trt_engine_cache_prefix", "trt_timing_cache_path",
            "trt_tactic_sources", "trt_extra_plugin_lib_paths", "trt_profile_min_shapes",
            "trt_profile_opt_shapes", "trt_profile_max_shapes", "trt_ep_context_file_path",
            "trt_onnx_model_folder_path", "trt_op_types_to_exclude", "trt_preview_features",
            "trt_engine_decryption_lib_path",
        ),
    ),
}  # fmt: skip
_PROFILES = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")


def with_profiles(providers: tuple[Provider, ...], config: ModelConfig) -> tuple[Provider, ...]:
    """Tells TensorRT the shapes that will come: it would build an engine again for every new one."""
    return tuple(
        _with_profile(provider, config) if provider.name == TENSORRT else provider
        for provider in providers
    )


def _with_profile(provider: Provider, config: ModelConfig) -> Provider:
    options = dict(provider.options)
    if any(key in options for key in _PROFILES):
        return provider  # ONNX Runtime says what is wrong with them, if anything is
    inputs = [spec for spec in config.inputs if spec.datatype != "BYTES"]
    for spec in inputs:
        if -1 in _dims(spec):
            raise InvalidArgument(
                f"input '{spec.name}' of model '{config.name}' has dimensions of any size: the TensorRT "
                f"Execution Accelerator needs the parameters {', '.join(_PROFILES)}, or it would build "
                "an engine again for every new shape"
            )
    if config.batching:
        most = config.max_batch_size
        for key, rows in zip(_PROFILES, (1, most, most), strict=True):
            options[key] = ",".join(_profile(spec, rows) for spec in inputs)
    return Provider(provider.name, _sorted(options))


def _dims(spec: TensorSpec) -> tuple[int, ...]:
    return spec.dims if spec.reshape is None else spec.reshape


def _profile(spec: TensorSpec, rows: int) -> str:
    return f"{spec.name}:{'x'.join(map(str, (rows, *_dims(spec))))}"


# CUDA


def _older_cuda_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """Options that configs of old give as parameters of the model."""
    options = {}
    for key, values in _OLDER_CUDA_VALUES.items():
        if key in parameters:
            if parameters[key] not in values:
                raise InvalidArgument(
                    f"parameter '{key}' must be one of {', '.join(values)}, got '{parameters[key]}'"
                )
            options[key] = values[parameters[key]]
    if "gpu_mem_limit" in parameters:
        options["gpu_mem_limit"] = _size(parameters["gpu_mem_limit"])
    return options


_OLDER_CUDA_VALUES: Mapping[str, Mapping[str, str]] = {
    "cudnn_conv_algo_search": {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"},
    "arena_extend_strategy": {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"},
    "do_copy_in_default_stream": {"0": "0", "1": "1"},
}
