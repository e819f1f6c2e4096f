"""Execution accelerators as ONNX Runtime's providers and options."""

import pytest

from inference_runtime.backends.onnxruntime_accelerators import (
    CPU,
    CUDA,
    OPENVINO,
    TENSORRT,
    Provider,
    asked_gpu_providers,
    check_devices,
    cpu_providers,
    gpu_providers,
    with_profiles,
)
from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.model_config import read


def proto_of(kind: str, name: str, more: str = "", **parameters: str):
    entries = " ".join(
        f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in parameters.items()
    )
    return config_from_text(
        f"optimization {{ execution_accelerators {{ {kind}_execution_accelerator "
        f'{{ name: "{name}" {entries} }} }} }} {more}'
    )


def options_of(providers: tuple[Provider, ...], name: str) -> dict[str, str]:
    return {key: text for each in providers if each.name == name for key, text in each.options}


def test_openvino_comes_before_the_plain_cpu():
    providers = cpu_providers(proto_of("cpu", "openvino", num_streams="2"))
    assert [each.name for each in providers] == [OPENVINO, CPU]
    assert options_of(providers, OPENVINO) == {"device_type": "CPU", "num_streams": "2"}


def test_tensorrt_falls_to_cuda_on_the_same_device():
    proto = proto_of(
        "gpu",
        "tensorrt",
        precision_mode="FP16",
        max_workspace_size_bytes="1024",
        trt_engine_cache_enable="true",
        trt_auxiliary_streams="-1",
        trt_engine_cache_path="/cache",
    )
    providers = gpu_providers(proto, 3, {})
    assert [each.name for each in providers] == [TENSORRT, CUDA, CPU]
    assert options_of(providers, TENSORRT) == {
        "device_id": "3",
        "trt_fp16_enable": "1",
        "trt_max_workspace_size": "1024",
        "trt_engine_cache_enable": "1",
        "trt_auxiliary_streams": "-1",
        "trt_engine_cache_path": "/cache",
    }
    assert options_of(providers, CUDA) == {"device_id": "3"}
    assert asked_gpu_providers(proto) == (TENSORRT, CUDA)


@pytest.mark.parametrize(
    ("mode", "option"),
    [("FP32", ""), ("BF16", "trt_bf16_enable"), ("INT8", "trt_int8_enable")],
)
def test_a_precision_is_one_option(mode, option):
    providers = gpu_providers(proto_of("gpu", "tensorrt", precision_mode=mode), 0, {})
    enabled = [key for key in options_of(providers, TENSORRT) if key.endswith("_enable")]
    assert enabled == ([option] if option else [])


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("trt_min_subgraph_size", "x", "failed to convert 'x' to integral number"),
        ("trt_onnx_bytestream", "1", "unknown parameter 'trt_onnx_bytestream' is provided"),
        ("trt_sparsity_enable", "2", "failed to convert '2' to boolean"),
    ],
)
def test_what_tensorrt_can_not_mean_is_refused(key, text, problem):
    with pytest.raises(InvalidArgument, match=problem):
        gpu_providers(proto_of("gpu", "tensorrt", **{key: text}), 0, {})


def test_older_configs_keep_options_of_cuda_with_the_model():
    parameters = {
        "cudnn_conv_algo_search": "1",
        "gpu_mem_limit": "1048576",
        "arena_extend_strategy": "1",
        "do_copy_in_default_stream": "0",
    }
    proto = proto_of("gpu", "cuda", arena_extend_strategy="kNextPowerOfTwo")
    assert options_of(gpu_providers(proto, 0, parameters), CUDA) == {
        "device_id": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        "gpu_mem_limit": "1048576",
        "arena_extend_strategy": "kNextPowerOfTwo",  # the accelerator's own word counts
        "do_copy_in_default_stream": "0",
    }
    with pytest.raises(InvalidArgument, match="'cudnn_conv_algo_search' must be one of 0, 1, 2"):
        gpu_providers(proto, 0, {"cudnn_conv_algo_search": "7"})


@pytest.mark.parametrize("kind", ["KIND_CPU", "KIND_MODEL"])
def test_an_accelerator_of_gpus_without_an_instance_on_one_is_no_silent_fallback(kind):
    group = "instance_group { kind: %s count: 1 }"
    with pytest.raises(Unavailable, match="asks for the GPU Execution Accelerator 'tensorrt'"):
        check_devices(read(proto_of("gpu", "tensorrt", group % kind)))
    both = group % kind + "instance_group { kind: KIND_GPU gpus: 0 count: 1 }"
    check_devices(read(proto_of("gpu", "tensorrt", both)))
    check_devices(read(proto_of("cpu", "openvino", group % kind)))


PORTS = (
    'name: "m" backend: "onnxruntime" max_batch_size: {rows} '
    'input {{ name: "x" data_type: TYPE_FP32 dims: [3, {size}] }} '
    'input {{ name: "s" data_type: TYPE_STRING dims: [1] }} '
    'output {{ name: "y" data_type: TYPE_FP32 dims: [1] }}'
)
RANGE = {
    "trt_profile_min_shapes": "x:1x3x1",
    "trt_profile_opt_shapes": "x:4x3x8",
    "trt_profile_max_shapes": "x:8x3x16",
}


def profiles(rows: int, size: int, **parameters: str) -> dict[str, str]:
    config = read(config_from_text(PORTS.format(rows=rows, size=size)))
    providers = gpu_providers(proto_of("gpu", "tensorrt", **parameters), 0, {})
    found = options_of(with_profiles(providers, config), TENSORRT)
    return {key: text for key, text in found.items() if key.startswith("trt_profile")}


def test_tensorrt_is_told_the_batches_that_will_come():
    assert profiles(8, 224) == {
        "trt_profile_min_shapes": "x:1x3x224",
        "trt_profile_opt_shapes": "x:8x3x224",
        "trt_profile_max_shapes": "x:8x3x224",
    }
    assert profiles(0, 224) == {}


def test_sizes_that_vary_need_a_range_from_the_config():
    assert profiles(8, -1, **RANGE) == RANGE
    with pytest.raises(InvalidArgument, match="input 'x' of model 'm' has dimensions of any size"):
        profiles(8, -1)
