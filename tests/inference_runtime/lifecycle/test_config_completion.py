"""What the file says completes a config, or contradicts it."""

import pytest

from inference_runtime.backends.base import ArtifactDescription, PortDescription
from inference_runtime.errors import InvalidArgument
from inference_runtime.lifecycle.config_completion import check_agreement, complete
from inference_runtime.lifecycle.version_config import BackendSettings
from inference_runtime.spec.config_text import config_from_text
from tests.inference_runtime.backends.loading import prepare
from tests.onnx_models import add_sub, identity


def described(*shapes, datatype="FP32"):
    ports = tuple(PortDescription(f"p{i}", datatype, shape) for i, shape in enumerate(shapes))
    return ArtifactDescription(ports[:1], ports[1:])


def completed(text, description, default=4):
    proto = config_from_text(text)
    proto.name = "m"
    complete(proto, description, default)
    return proto


def test_a_model_that_can_batch_gets_a_batch_size_and_a_batcher():
    proto = completed("", described((-1, 3), (-1, 2)))
    assert proto.max_batch_size == 4
    assert proto.HasField("dynamic_batching")
    assert list(proto.input[0].dims) == [3]
    assert list(proto.output[0].dims) == [2]


def test_a_default_of_one_adds_no_batcher_and_of_zero_no_batching():
    assert not completed("", described((-1, 3), (-1, 2)), 1).HasField("dynamic_batching")
    proto = completed("", described((-1, 3), (-1, 2)), 0)
    assert proto.max_batch_size == 0
    assert list(proto.input[0].dims) == [-1, 3]


def test_a_fixed_first_dimension_does_not_batch():
    proto = completed("", described((1, 3), (-1, 2)))
    assert proto.max_batch_size == 0
    with pytest.raises(InvalidArgument) as caught:
        completed("max_batch_size: 8", described((1, 3), (-1, 2)))
    assert caught.value.text == (
        "autofill failed for model 'm': model does not support batching while non-zero "
        "max_batch_size is specified"
    )


def test_a_dimension_that_is_always_empty_is_open_in_the_config():
    description = described((2, 0), (0,))
    proto = completed("", description)
    assert proto.max_batch_size == 0
    assert list(proto.input[0].dims) == [2, -1]
    assert list(proto.output[0].dims) == [-1]
    check_agreement(proto, description)


def test_a_config_with_inputs_and_outputs_is_left_alone():
    text = (
        'input { name: "p0" data_type: TYPE_FP32 dims: [-1, 3] } '
        'output { name: "p1" data_type: TYPE_FP32 dims: [-1, 2] }'
    )
    proto = completed(text, described((-1, 3), (-1, 2)))
    assert proto.max_batch_size == 0
    assert not proto.HasField("dynamic_batching")


def test_a_described_batch_is_an_input_like_others():
    text = (
        'batch_input { target_name: "p0" data_type: TYPE_INT32 source_input: "q" } '
        'output { name: "p1" data_type: TYPE_FP32 dims: [-1, 2] }'
    )
    proto = completed(text, described((-1, 3), (-1, 2)))
    assert not proto.input
    assert proto.max_batch_size == 0


def test_a_batch_of_scalars_is_one_element_to_clients():
    proto = completed("", described((-1,), (-1,)))
    assert list(proto.input[0].dims) == [1]
    assert proto.input[0].HasField("reshape")
    assert list(proto.input[0].reshape.shape) == []
    assert not completed("", described((), ())).input[0].HasField("reshape")


def test_a_configured_scheduler_stays():
    proto = completed(
        "dynamic_batching { max_queue_delay_microseconds: 7 }", described((-1, 3), (-1, 2))
    )
    assert proto.dynamic_batching.max_queue_delay_microseconds == 7


CONFIG = (
    'name: "m" max_batch_size: {batch} input {{ name: "p0" data_type: {type} dims: {dims} }} '
    'output {{ name: "{out}" data_type: TYPE_FP32 dims: [2] }} {more}'
)


@pytest.mark.parametrize(
    ("changes", "shape", "message"),
    [
        (
            {"more": 'input { name: "p2" data_type: TYPE_FP32 dims: [1] }'},
            (-1, 3),
            "unable to load model 'm', configuration expects 2 inputs, model provides 1",
        ),
        (
            {"out": "q"},
            (-1, 3),
            "unexpected inference output 'q', allowed outputs are: p1",
        ),
        (
            {"type": "TYPE_INT8"},
            (-1, 3),
            "unable to load model 'm', configuration expects datatype TYPE_INT8 for input 'p0', "
            "model provides TYPE_FP32",
        ),
        (
            {"dims": "[16, 1]"},
            (-1, 16),
            "model 'm', tensor 'p0': the model expects 2 dimensions (shape [-1,16]) but the model "
            "configuration specifies 3 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,16,1])",
        ),
        (
            {"dims": "[-1]"},
            (-1, 3),
            "model 'm', tensor 'p0': the model expects 2 dimensions (shape [-1,3]) but the model "
            "configuration specifies 2 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,-1])",
        ),
        (
            {},
            (1, 3),
            "model 'm', tensor 'p0': for the model to support batching the shape should have at "
            "least 1 dimension and the first dimension must be -1; but shape expected by the model "
            "is [1,3]",
        ),
        (
            {"batch": 0, "dims": "[1, 256]"},
            (-1, 3),
            "model 'm', tensor 'p0': the model expects 2 dimensions (shape [-1,3]) but the model "
            "configuration specifies 2 dimensions (shape [1,256])",
        ),
    ],
)
def test_contradictions_are_named(changes, shape, message):
    values = {"batch": 4, "type": "TYPE_FP32", "dims": "[3]", "out": "p1", "more": "", **changes}
    proto = config_from_text(CONFIG.format(**values))
    with pytest.raises(InvalidArgument) as caught:
        check_agreement(proto, described(shape, (-1, 2)))
    assert caught.value.text == message


def test_a_size_of_an_input_that_the_file_leaves_open_may_be_fixed_and_none_of_an_output():
    proto = config_from_text(
        CONFIG.format(batch=4, type="TYPE_FP32", dims="[3]", out="p1", more="")
    )
    check_agreement(proto, described((-1, -1), (-1, *proto.output[0].dims)))
    with pytest.raises(InvalidArgument, match="tensor 'p1': the model expects 2 dimensions"):
        check_agreement(proto, described((-1, -1), (-1, -1)))


def test_the_reference_configs_of_triton(tmp_path):
    """Only 1/model.onnx: what its config API answers."""
    proto = prepare(tmp_path / "a", add_sub()).config.proto
    assert proto.max_batch_size == 4
    assert list(proto.dynamic_batching.preferred_batch_size) == [4]
    assert [group.name for group in proto.instance_group] == ["m"]
    assert proto.version_policy.latest.num_versions == 1
    assert (proto.platform, proto.backend) == ("onnxruntime_onnx", "onnxruntime")
    assert proto.default_model_filename == "model.onnx"
    assert proto.optimization.input_pinned_memory.enable
    fixed = prepare(
        tmp_path / "b",
        identity("INT8", (1, 16), batching=False),
        "instance_group [ { kind: KIND_CPU } ]",
    ).config.proto
    assert fixed.max_batch_size == 0
    assert (fixed.instance_group[0].name, fixed.instance_group[0].count) == ("m_0", 2)
    assert not fixed.HasField("dynamic_batching")


def test_the_default_batch_size_is_a_backend_option(tmp_path):
    settings = BackendSettings(by_backend={"": {"default-max-batch-size": "8"}})
    assert prepare(tmp_path, add_sub(), settings=settings).config.max_batch_size == 8
    wrong = BackendSettings(by_backend={"onnxruntime": {"default-max-batch-size": "many"}})
    with pytest.raises(InvalidArgument, match="default-max-batch-size must be"):
        prepare(tmp_path, add_sub(), settings=wrong)


def test_labels_are_read_from_inside_the_model_only(tmp_path):
    text = 'output {{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [16] label_filename: "{}" }}'
    (tmp_path / "m").mkdir()
    (tmp_path / "m/labels.txt").write_text("cat\ndog\n")
    (tmp_path / "secret.txt").write_text("no")
    labels = prepare(tmp_path, add_sub(), text.format("labels.txt")).labels
    assert labels == {"OUTPUT0": ("cat", "dog")}
    for name in ("../secret.txt", "missing.txt"):
        with pytest.raises(InvalidArgument, match="can not be read"):
            prepare(tmp_path, add_sub(), text.format(name))


def test_only_the_end_of_a_line_ends_a_label(tmp_path):
    text = 'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [16] label_filename: "l" }'
    (tmp_path / "m").mkdir()
    (tmp_path / "m/l").write_bytes("cat\r\nsea\N{LINE SEPARATOR}lion\n\nm\xf6we\n".encode())
    labels = prepare(tmp_path, add_sub(), text).labels
    assert labels == {"OUTPUT0": ("cat", "sea\N{LINE SEPARATOR}lion", "", "m\xf6we")}
