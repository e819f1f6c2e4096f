"""The ONNX Runtime backend on real graphs."""

from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from inference_runtime.backends.onnxruntime_accelerators import CPU, CUDA, Provider
from inference_runtime.backends.onnxruntime_backend import _port
from inference_runtime.backends.onnxruntime_options import session_settings
from inference_runtime.backends.onnxruntime_sessions import open_session
from inference_runtime.errors import FailureReason, Internal, InvalidArgument, Unavailable
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.tensors import bytes_array
from tests.inference_runtime.backends.loading import prepare, start
from tests.onnx_models import ONNX_TYPES, add_sub, failing, identity, write_model


def some(datatype: str, shape) -> np.ndarray:
    count = int(np.prod(shape))
    if datatype == "BYTES":
        return bytes_array([f"é{number}".encode() for number in range(count)], shape)
    if datatype == "BF16":
        # 1.0, 2.0, NaN and friends: every bit pattern has to come back.
        return (np.arange(count, dtype=np.uint16) * 7919 + 0x3F80).astype(np.uint16).reshape(shape)
    return (np.arange(count) % 2).astype(BY_WIRE[datatype].dtype).reshape(shape)


@pytest.mark.parametrize("datatype", sorted(ONNX_TYPES))
@pytest.mark.parametrize("shape", [(1, 3), (4, 2), (2, 0)], ids=str)
def test_every_datatype_comes_back_as_it_went_in(tmp_path, datatype, shape):
    backend = start(prepare(tmp_path, identity(datatype)))
    given = some(datatype, shape)
    (answer,) = backend.execute([given], ["OUTPUT0"])
    assert answer.dtype == given.dtype
    assert answer.shape == given.shape
    assert answer.tolist() == given.tolist()


@pytest.mark.parametrize("datatype", sorted(ONNX_TYPES))
def test_scalars_are_one_element_to_clients(tmp_path, datatype):
    prepared = prepare(tmp_path, identity(datatype, (), batching=False))
    assert prepared.config.inputs[0].dims == (1,)
    given = some(datatype, (1,))
    (answer,) = start(prepared).execute([given], ["OUTPUT0"])
    assert answer.shape == (1,)
    assert answer.tolist() == given.tolist()


def test_strings_keep_embedded_zeros(tmp_path):
    backend = start(prepare(tmp_path, identity("BYTES")))
    given = bytes_array([b"a\0b", b"", b"b'a'"], (1, 3))
    assert backend.execute([given], ["OUTPUT0"])[0].tolist() == given.tolist()


def test_bytes_that_are_no_text_are_the_callers_fault(tmp_path):
    backend = start(prepare(tmp_path, identity("BYTES")))
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        backend.execute([bytes_array([b"\xff\xfe"], (1, 1))], ["OUTPUT0"])


def test_outputs_come_in_the_order_asked(tmp_path):
    backend = start(prepare(tmp_path, add_sub()))
    one, two = np.full((1, 16), 1, np.int32), np.full((1, 16), 2, np.int32)
    difference, total = backend.execute([one, two], ["OUTPUT1", "OUTPUT0"])
    assert (difference[0, 0], total[0, 0]) == (-1, 3)
    assert len(backend.execute([one, two], ["OUTPUT1"])) == 1


def test_a_failing_run_says_so_in_tritons_words_and_the_next_one_is_fine(tmp_path):
    backend = start(prepare(tmp_path, failing()))
    with pytest.raises(Internal, match=r"^onnx runtime error 2: .*out of data bounds") as caught:
        backend.execute([np.array([[12]], np.int64)], ["OUTPUT0"])
    assert caught.value.reason is FailureReason.BACKEND
    assert backend.execute([np.array([[3]], np.int64)], ["OUTPUT0"])[0].tolist() == [[30]]


def test_instances_of_a_version_share_the_weights(tmp_path):
    prepared = prepare(tmp_path, add_sub())
    backends = [start(prepared), start(prepared)]
    given = np.ones((1, 16), np.int32)
    backends[0].unload()
    backends[0].unload()
    assert backends[1].execute([given, given], ["OUTPUT0"])[0][0, 0] == 2


def test_missing_broken_and_unknown_are_load_errors_with_orts_code(tmp_path):
    config = (
        'backend: "onnxruntime" input { name: "x" data_type: TYPE_FP32 dims: [1] }'
        'output { name: "y" data_type: TYPE_FP32 dims: [1] }'
    )
    with pytest.raises(Unavailable, match=r"unable to find '.*model.onnx' for model instance 'm'"):
        prepare(tmp_path / "a", config=config)
    (tmp_path / "a/m/1/model.onnx").write_bytes(b"no model")
    with pytest.raises(Internal, match=r"onnx runtime error 7: .*Protobuf parsing failed"):
        prepare_again(tmp_path / "a")
    node = helper.make_node("FooBar", ["x"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "a/m/1/model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(Internal, match=r"onnx runtime error \d+: .*FooBar"):
        prepare_again(tmp_path / "a")


def prepare_again(path):
    from inference_runtime.lifecycle.version_config import BackendSettings, prepare_version
    from inference_runtime.repository.repository import ModelRepository
    from inference_runtime.repository.store import DirectoryStore

    return prepare_version(ModelRepository([DirectoryStore(path)]).poll("m"), 1, BackendSettings())


def test_a_directory_named_as_the_model_holds_external_data(tmp_path):
    directory = tmp_path / "m/1/model.onnx"
    directory.mkdir(parents=True)
    weight = onnx.numpy_helper.from_array(np.full((4096,), 3, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4096])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4096])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(
        model,
        str(directory / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    backend = start(prepare_again(tmp_path))
    assert backend.execute([np.zeros((1, 4096), np.float32)], ["y"])[0][0, 0] == 3


def test_sequences_are_no_tensors(tmp_path):
    value = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("SequenceConstruct", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [value],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(
        InvalidArgument,
        match="Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'y', expected 'ONNX_TYPE_TENSOR'",
    ):
        prepare(tmp_path, model)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("sparse_tensor(float)", "Unsupported ONNX Type 'ONNX_TYPE_SPARSETENSOR' for I/O 'x', "),
        ("map(string,tensor(float))", "Unsupported ONNX Type 'ONNX_TYPE_MAP' for I/O 'x', "),
        ("tensor(float8e4m3fn)", "unsupported datatype 'tensor(float8e4m3fn)' for I/O 'x' of "),
    ],
)
def test_what_is_no_tensor_of_a_known_datatype_is_named(kind, problem):
    with pytest.raises(InvalidArgument) as caught:
        _port(SimpleNamespace(name="x", type=kind, shape=[1]))
    assert caught.value.text.startswith(problem)


def library(name: str) -> str:
    return f'model_operations {{ op_library_filename: "{name}" }}'


@pytest.mark.parametrize("place", ["absolute", "model", "repository"])
def test_libraries_of_operators_are_found_where_they_are(tmp_path, place):
    """What ONNX Runtime says of one shows which it was given: it is none, but it is there."""
    directory = tmp_path / "r/m" if place == "model" else tmp_path / "r"
    file = (tmp_path if place == "absolute" else directory) / "ops/libmine.so"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no library")
    name = str(file) if place == "absolute" else "ops/libmine.so"
    with pytest.raises(Internal, match=r"^onnx runtime error 1: ") as caught:
        prepare(tmp_path / "r", add_sub(), library(name))
    assert str(file) in caught.value.text
    assert "No such file" not in caught.value.text


def test_files_that_a_config_can_not_mean_are_refused(tmp_path):
    with pytest.raises(
        InvalidArgument, match=r"custom operator library '../x.so' can not be found"
    ):
        prepare(tmp_path / "a", add_sub(), library("../x.so"))
    with pytest.raises(InvalidArgument, match="the model file must lie inside of its version"):
        prepare(
            tmp_path / "b",
            add_sub(),
            'backend: "onnxruntime" default_model_filename: "../m.onnx"',
        )


def settings(parameters: str = "", options=None, gpu=None):
    return session_settings(config_from_text(f'name: "m" {parameters}'), options or {}, gpu)


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def test_the_session_has_what_the_config_asks_for(tmp_path):
    write_model(tmp_path, "m", add_sub())
    asked = settings(
        parameter("execution_mode", "1")
        + parameter("intra_op_thread_count", "2")
        + parameter("inter_op_thread_count", "3")
        + parameter("enable_mem_arena", "0")
        + parameter("enable_mem_pattern", "0")
        + parameter("session.use_device_allocator_for_initializers", "1")
        + "optimization { graph { level: -1 } }"
    )
    session = open_session(tmp_path / "m/1/model.onnx", asked, tmp_path / "m")
    options = session.get_session_options()
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 3)
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert options.graph_optimization_level == level
    entry = options.get_session_config_entry("session.use_device_allocator_for_initializers")
    assert entry == "1"


def test_threads_default_to_one_and_follow_model_then_server():
    assert settings().intra_op_threads == 1
    assert settings(options={"intra_op_thread_count": "3"}).intra_op_threads == 3
    both = settings(parameter("intra_op_thread_count", "2"), {"intra_op_thread_count": "3"})
    assert both.intra_op_threads == 2
    assert settings(parameter("execution_mode", "1")).parallel is True
    assert settings("optimization { graph { level: 1 } }").graph_level == "ORT_ENABLE_EXTENDED"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            parameter("execution_mode", "7"),
            "Expected values for  execution_mode are 0 or 1 but got 7 .",
        ),
        (parameter("intra_op_thread_count", "x"), "must be a non-negative integer, got 'x'"),
        (parameter("intra_op_thread_count", "1025"), "must be 1024 at most, got '1025'"),
        (parameter("inter_op_thread_count", 30 * "9"), "must be 1024 at most, got '9"),
        (
            'optimization { execution_accelerators { cpu_execution_accelerator { name: "foo" } } }',
            "unknown Execution Accelerator 'foo' is requested",
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(text, problem):
    with pytest.raises(InvalidArgument, match=problem):
        settings(text)


def test_a_provider_that_is_not_there_is_no_silent_fallback(tmp_path):
    config = (
        'optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }'
    )
    with pytest.raises(Unavailable, match="OpenVINOExecutionProvider is not part of the installed"):
        prepare(tmp_path, add_sub(), config)


def test_gpu_instances_ask_for_cuda_with_their_device():
    found = settings(
        "optimization { execution_accelerators { gpu_execution_accelerator "
        '{ name: "cuda" parameters { key: "use_tf32" value: "0" } } } }',
        gpu=1,
    )
    assert found.providers == (
        Provider(CUDA, (("device_id", "1"), ("use_tf32", "0"))),
        Provider(CPU),
    )


def test_gpu_instances_are_refused_where_nothing_could_run_them(tmp_path):
    with pytest.raises(InvalidArgument, match="has kind KIND_GPU but"):
        prepare(tmp_path, add_sub(), "instance_group { kind: KIND_GPU }")


def test_a_reload_never_meets_the_session_of_older_files(tmp_path):
    first = start(prepare(tmp_path, add_sub()))
    write_model(tmp_path, "m", identity("INT32", (16,)))
    second = start(prepare_again(tmp_path))
    given = np.ones((1, 16), np.int32)
    assert second.execute([given], ["OUTPUT0"])[0][0, 0] == 1
    assert first.execute([given, given], ["OUTPUT0"])[0][0, 0] == 2
