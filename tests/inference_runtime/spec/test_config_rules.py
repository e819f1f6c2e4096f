"""Wrong configs are refused in Triton's words; gaps are filled as Triton fills them."""

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_defaults import (
    fill_identity,
    fill_instance_groups,
    fill_scheduling,
)
from inference_runtime.spec.config_rules import (
    check_dynamic_batching,
    check_identity,
    check_instance_groups,
    check_ports,
)
from inference_runtime.spec.config_text import config_from_text

ONNX = 'platform: "onnxruntime_onnx" backend: "onnxruntime" '
OUT = 'output { name: "y" data_type: TYPE_FP32 dims: [1] } '


def config(text: str, name="m"):
    proto = config_from_text(text)
    proto.name = proto.name or name
    return proto


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'name: "other"',
            "unexpected directory name 'm' for model 'other', directory name must equal model name",
        ),
        ("max_batch_size: -1", "'max_batch_size' must be non-negative value for m"),
        ('platform: "foo"', "unexpected platform type 'foo' for m"),
        (
            'platform: "ensemble" backend: "x"',
            "Ensemble model 'm' must have platform type 'ensemble' and empty backend type",
        ),
        (
            'platform: "ensemble"',
            "ensemble scheduling must be set for ensemble m whose platform is ensemble",
        ),
        (
            'backend: "onnxruntime" ensemble_scheduling { }',
            "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble",
        ),
        (
            'backend: "onnxruntime" platform: "tensorrt_plan"',
            "unexpected 'platform' and 'backend' pair, got:tensorrt_plan, onnxruntime",
        ),
    ],
)
def test_identity_rules(text, message):
    with pytest.raises(InvalidArgument) as caught:
        check_identity(config(text), "m")
    assert caught.value.text == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("data_type: TYPE_FP32 dims: [1]", "model input must specify 'name' for m"),
        ('name: "x" dims: [1]', "model input 'x' must specify 'data_type' for m"),
        ('name: "x" data_type: TYPE_FP32', "model input 'x' must specify 'dims' for m"),
        (
            'name: "x" data_type: TYPE_FP32 dims: [0]',
            "model input 'x' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [1] reshape { shape: [] }',
            "model input 'x' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 0] }',
            "model input 'x' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 3] }',
            "model input 'x' has different size for dims and reshape for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [-1] }',
            "model input 'x' has different size for dims and reshape for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4, -1] reshape { shape: [-1, -1] }',
            "model input 'x' has different number of variable-size dimensions for dims and reshape for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [2, -1, 3] reshape { shape: [3, -1, 2] }',
            "model input 'x' has different size for dims and reshape for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] format: FORMAT_NHWC',
            "model input NHWC/NCHW require 3 dims for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] is_shape_tensor: true',
            "shape tensors are only supported for TensorRT platform for m",
        ),
        (
            'name: "x" data_type: TYPE_FP32 dims: [4] is_non_linear_format_io: true',
            "Non-linear IO format is only supported for the TensorRT platform for m",
        ),
    ],
)
def test_port_rules(entry, message):
    with pytest.raises(InvalidArgument) as caught:
        check_ports(config(f"{ONNX} {OUT} input {{ {entry} }}"))
    assert caught.value.text == message


def test_a_name_can_be_used_once_and_an_output_there_must_be():
    port = '{ name: "x" data_type: TYPE_FP32 dims: [1] }'
    with pytest.raises(InvalidArgument, match="model input 'x' is specified more than once"):
        check_ports(config(f"{ONNX} {OUT} input {port} input {port}"))
    with pytest.raises(InvalidArgument, match="must contain at least one output"):
        check_ports(config(f"{ONNX} input {port}"))


@pytest.mark.parametrize(
    ("batching", "message"),
    [
        ("preferred_batch_size: [0]", "dynamic batching preferred size must be positive for m"),
        (
            "preferred_batch_size: [9]",
            "dynamic batching preferred size must be <= max batch size for m",
        ),
        ("priority_levels: 2", "default priority level must be in range [1, 2] for m"),
        (
            "priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }",
            "priority queue policy must have priority level in range [1, 2] for m",
        ),
        (
            "preserve_ordering: true priority_levels: 2 default_priority_level: 1",
            "Only one priority level is allowed when 'preserve_ordering' is true for m",
        ),
        (
            "preserve_ordering: true default_queue_policy "
            "{ timeout_action: DELAY default_timeout_microseconds: 1 }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
        ),
    ],
)
def test_dynamic_batching_rules(batching, message):
    with pytest.raises(InvalidArgument) as caught:
        check_dynamic_batching(config(f"max_batch_size: 8 dynamic_batching {{ {batching} }}"))
    assert caught.value.text == message


@pytest.mark.parametrize(
    ("group", "gpus", "support", "message"),
    [
        (
            "kind: KIND_CPU gpus: [0]",
            (0,),
            True,
            "has kind KIND_CPU but specifies one or more GPUs",
        ),
        (
            "kind: KIND_MODEL gpus: [0]",
            (0,),
            True,
            "has kind KIND_MODEL but specifies one or more GPUs",
        ),
        ("kind: KIND_GPU", (), True, "has kind KIND_GPU but no GPUs are available"),
        ("kind: KIND_GPU", (), False, "has kind KIND_GPU but server does not support GPUs"),
        (
            "kind: KIND_GPU gpus: [3]",
            (0,),
            True,
            "specifies invalid or unsupported gpu id 3. GPUs with at least the minimum required CUDA "
            "compute compatibility of 7.5 are: 0",
        ),
        (
            'kind: KIND_CPU profile: ["0"]',
            (),
            True,
            "specifies profile field which is only supported for TensorRT models",
        ),
    ],
)
def test_instance_group_rules(group, gpus, support, message):
    proto = config(f"{ONNX} instance_group {{ {group} }}")
    fill_instance_groups(proto, gpus)
    with pytest.raises(InvalidArgument) as caught:
        check_instance_groups(proto, gpus, gpu_support=support)
    assert caught.value.text.startswith(f"instance group m_0 of model m {message}")


@pytest.mark.parametrize(
    ("text", "files", "backend", "platform", "filename"),
    [
        ("", {"model.onnx"}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ("", {"model.plan", "model.onnx"}, "tensorrt", "tensorrt_plan", "model.plan"),
        ("", {"model.py"}, "python", "", "model.py"),
        ('platform: "onnxruntime_onnx"', (), "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ('backend: "onnxruntime"', (), "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        (
            'backend: "onnxruntime" default_model_filename: "a.onnx"',
            {"a.onnx"},
            "onnxruntime",
            "onnxruntime_onnx",
            "a.onnx",
        ),
        ('default_model_filename: "model.pt2"', (), "pytorch", "torch_aoti", "model.pt2"),
        ('platform: "torch_aoti"', (), "pytorch", "torch_aoti", "model.pt2"),
        ('platform: "libtorch"', (), "pytorch", "libtorch", "model.pt"),
        ('backend: "pytorch"', (), "pytorch", "pytorch_libtorch", "model.pt"),
        (
            'platform: "foo" default_model_filename: "model.onnx"',
            (),
            "onnxruntime",
            "foo",
            "model.onnx",
        ),
        ('backend: "identity"', (), "identity", "", ""),
    ],
)
def test_backend_platform_and_file_are_inferred_from_each_other(
    text, files, backend, platform, filename
):
    proto = config(text)
    fill_identity(proto, "m", files)
    assert (proto.backend, proto.platform, proto.default_model_filename) == (
        backend,
        platform,
        filename,
    )
    assert proto.version_policy.latest.num_versions == 1


def test_a_model_may_carry_its_backend_in_its_name():
    proto = config("", "thing.custom")
    fill_identity(proto, "thing.custom", ())
    assert (proto.backend, proto.default_model_filename) == ("custom", "model.custom")
    with pytest.raises(InvalidArgument, match=r"Invalid model name: Could not determine backend"):
        fill_identity(config(""), "m", {"weights.bin"})


@pytest.mark.parametrize(
    ("text", "gpus", "groups"),
    [
        ("", (), [("m", "KIND_CPU", 2, [])]),
        ("", (0, 1), [("m", "KIND_GPU", 1, [0, 1])]),
        ("instance_group { }", (), [("m_0", "KIND_CPU", 2, [])]),
        (
            'instance_group { count: 3 } instance_group { name: "b" gpus: [7] }',
            (0,),
            [("m_0", "KIND_GPU", 3, [0]), ("b", "KIND_CPU", 2, [7])],
        ),
    ],
)
def test_instance_groups_are_completed(text, gpus, groups):
    proto = config(ONNX + text)
    fill_instance_groups(proto, gpus)
    kinds = proto.instance_group[0].Kind
    assert [
        (g.name, kinds.Name(g.kind), g.count, list(g.gpus)) for g in proto.instance_group
    ] == groups


def test_preferred_sizes_and_pinned_memory_are_completed():
    proto = config(
        "max_batch_size: 8 dynamic_batching { } optimization { input_pinned_memory { enable: false } }"
    )
    fill_scheduling(proto)
    assert list(proto.dynamic_batching.preferred_batch_size) == [8]
    assert proto.optimization.input_pinned_memory.enable is False
    assert proto.optimization.output_pinned_memory.enable is True


def test_what_only_tensorrt_has_is_checked_there():
    platform = 'platform: "tensorrt_plan" backend: "tensorrt" '
    for kind, other in (("input", OUT), ("output", "")):
        port = '{ name: "x" data_type: TYPE_FP32 dims: [4] is_non_linear_format_io: true }'
        with pytest.raises(InvalidArgument) as caught:
            check_ports(config(f"{platform} {other} {kind} {port}"))
        assert caught.value.text == f"Non-linear IO format {kind} requires 3 dims for m"
    proto = config(platform + 'instance_group { name: "g" kind: KIND_CPU profile: ["-1"] }')
    with pytest.raises(InvalidArgument) as caught:
        check_instance_groups(proto, ())
    assert caught.value.text == (
        "instance group g of model m specifies invalid profile -1. The field should contain the "
        "string representation of a non-negative integer."
    )
