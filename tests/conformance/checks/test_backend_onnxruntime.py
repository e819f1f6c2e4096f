"""Section 7.2 of the backends' checklist: ONNX Runtime, seen by an operator and by clients."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client
from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.onnx_models import OPSET, failing, identity, write_model

pytestmark = pytest.mark.conformance
DELAY = "dynamic_batching { max_queue_delay_microseconds: 300000 }"


@dataclass
class Yard:
    """A server in explicit mode and the repository it reads."""

    server: RuntimeProcess
    repository: Path

    def load(self, name: str, model, config: str | None = None) -> dict[str, Any]:
        """The config that the model got."""
        write_model(self.repository, name, model, config=config)
        status, answer = self.server.call("POST", f"/v2/repository/models/{name}/load")
        assert status == 200, answer
        return self.server.call("GET", f"/v2/models/{name}/config")[1]

    def problem(self, name: str, model, config: str | None = None) -> str:
        """Why it does not load."""
        write_model(self.repository, name, model, config=config)
        return self.problem_of_files(name)

    def problem_of_files(self, name: str) -> str:
        status, answer = self.server.call("POST", f"/v2/repository/models/{name}/load")
        assert status == 400, answer
        return answer["error"]


@pytest.fixture(scope="module")
def yard(tmp_path_factory) -> Iterator[Yard]:
    repository = tmp_path_factory.mktemp("repository")
    with runtime(repository, tmp_path_factory.mktemp("log") / "runtime.log") as server:
        yield Yard(server, repository)


@pytest.fixture(scope="module")
def server(yard):
    return yard.server


def parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def accelerator(kind: str, name: str, **parameters: str) -> str:
    entries = " ".join(
        f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in parameters.items()
    )
    return (
        f"optimization {{ execution_accelerators {{ {kind}_execution_accelerator "
        f'{{ name: "{name}" {entries} }} }} }}'
    )


def ports(in_type="TYPE_FP32", in_dims="[3]", out_type="TYPE_FP32", out_dims="[3]") -> str:
    return (
        f'input {{ name: "INPUT0" data_type: {in_type} dims: {in_dims} }} '
        f'output {{ name: "OUTPUT0" data_type: {out_type} dims: {out_dims} }}'
    )


def graph_of(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def value(name: str, kind: int, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def test_backend_053_a_model_with_free_rows_and_no_config_batches_up_to_four(yard):
    config = yard.load("free_rows", identity("FP32", (3,)))
    assert config["max_batch_size"] == 4
    assert config["input"][0]["dims"] == config["output"][0]["dims"] == [3]
    assert config["dynamic_batching"]["preferred_batch_size"] == [4]
    assert "autofilled max_batch_size to 4 for model 'free_rows'" in yard.server.log


def test_backend_054_a_default_of_one_adds_no_batcher(tmp_path):
    write_model(tmp_path / "r", "m", identity("FP32", (3,)))
    option = "--backend-config=onnxruntime,default-max-batch-size=1"
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=m", option) as server:
        config = server.call("GET", "/v2/models/m/config")[1]
    assert config["max_batch_size"] == 1
    assert "dynamic_batching" not in config


def test_backend_055_a_fixed_first_dimension_refuses_a_batch_size(yard):
    problem = yard.problem(
        "fixed_rows", identity("FP32", (2, 3), batching=False), "max_batch_size: 8"
    )
    assert (
        "Invalid argument: autofill failed for model 'fixed_rows': model does not support batching "
        "while non-zero max_batch_size is specified" in problem
    )


def test_backend_056_a_config_with_inputs_and_outputs_is_left_untouched(yard):
    config = yard.load(
        "listed", identity("FP32", (3,)), ports("TYPE_FP32", "[-1, 3]", out_dims="[-1, 3]")
    )
    assert config["max_batch_size"] == 0
    assert "dynamic_batching" not in config
    assert (
        "skipping model configuration auto-complete for 'listed': inputs and outputs already specified"
        in yard.server.log
    )


@pytest.mark.parametrize(
    ("name", "config", "text"),
    [
        (
            "input_type",
            ports("TYPE_INT8"),
            "unable to load model 'input_type', configuration expects datatype TYPE_INT8 for input "
            "'INPUT0', model provides TYPE_FP32",
        ),
        (
            "output_type",
            ports(out_type="TYPE_INT8"),
            "unable to load model 'output_type', configuration expects datatype TYPE_INT8 for output "
            "'OUTPUT0', model provides TYPE_FP32",
        ),
        (
            "input_count",
            ports() + ' input { name: "MORE" data_type: TYPE_FP32 dims: [3] }',
            "unable to load model 'input_count', configuration expects 2 inputs, model provides 1",
        ),
        (
            "input_rank",
            ports(in_dims="[3, 1]"),
            "model 'input_rank', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,3]) but the "
            "model configuration specifies 3 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,3,1])",
        ),
        (
            "output_size",
            ports(out_dims="[4]"),
            "model 'output_size', tensor 'OUTPUT0': the model expects 2 dimensions (shape [-1,3]) but",
        ),
        (
            "optional_input",
            ports().replace("dims: [3]", "dims: [3] optional: true", 1),
            "unable to load model 'optional_input', optional input 'INPUT0' is not supported for models "
            "that support batching",
        ),
    ],
)
def test_backend_057_a_config_that_contradicts_the_file_says_where(yard, name, config, text):
    assert text in yard.problem(name, identity("FP32", (3,)), f"max_batch_size: 8 {config}")


def test_backend_057_rows_must_be_free_for_a_batch(yard):
    config = f"max_batch_size: 8 {ports()}"
    assert (
        "model 'rows', tensor 'INPUT0': for the model to support batching the shape should have at least "
        "1 dimension and the first dimension must be -1; but shape expected by the model is [2,3]"
    ) in yard.problem("rows", identity("FP32", (2, 3), batching=False), config)


def test_backend_058_sequences_are_no_tensors(yard):
    model = graph_of(
        [helper.make_node("SequenceConstruct", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
    )
    assert (
        "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'y', expected 'ONNX_TYPE_TENSOR'."
        in yard.problem("sequence", model)
    )


def test_backend_059_the_execution_mode_is_one_of_two(yard, client):
    problem = yard.problem("mode_7", identity(), parameter("execution_mode", "7"))
    assert "Expected values for  execution_mode are 0 or 1 but got 7 ." in problem
    yard.load("mode_1", identity(), parameter("execution_mode", "1"))
    given = np.ones((1, 3), np.float32)
    assert client.ask("mode_1", {"INPUT0": given}).as_numpy("OUTPUT0").tolist() == given.tolist()


@pytest.mark.parametrize(
    "parameters",
    [
        parameter("intra_op_thread_count", "2") + parameter("inter_op_thread_count", "2"),
        parameter("enable_mem_arena", "0") + parameter("enable_mem_pattern", "1"),
        parameter("session.use_device_allocator_for_initializers", "1"),
        parameter("memory.enable_memory_arena_shrinkage", "cpu:0"),
        "optimization { graph { level: -1 } }",
    ],
)
def test_backend_059_a_model_with_other_settings_gives_the_same_answer(yard, client, parameters):
    yard.load("settings", identity(), parameters)
    given = np.ones((1, 3), np.float32)
    assert client.ask("settings", {"INPUT0": given}).as_numpy("OUTPUT0").tolist() == given.tolist()


def test_backend_059_a_device_that_is_not_there_can_not_be_shrunk(yard, client):
    yard.load("shrink", identity(), parameter("memory.enable_memory_arena_shrinkage", "cpu:7"))
    with pytest.raises(InferenceServerException, match="in the memory arena shrink list: cpu:7"):
        client.ask("shrink", {"INPUT0": np.ones((1, 3), np.float32)})


def test_backend_059_all_models_can_share_one_pool_of_threads(tmp_path):
    for name in ("a", "b"):
        write_model(
            tmp_path / "r", name, identity(), config=parameter("intra_op_thread_count", "5")
        )
    options = [
        f"--backend-config=onnxruntime,{setting}"
        for setting in ("enable-global-threadpool=1", "intra_op_thread_count=2")
    ]
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=*", *options) as server:
        client = Client(server, "grpc")
        given = np.ones((1, 3), np.float32)
        for name in ("a", "b"):
            answer = client.ask(name, {"INPUT0": given}).as_numpy("OUTPUT0")
            assert answer.tolist() == given.tolist()
        client.close()


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_backend_060_an_accelerator_nobody_knows(yard, kind):
    problem = yard.problem(f"foo_{kind}", identity(), accelerator(kind, "foo"))
    assert "Invalid argument: unknown Execution Accelerator 'foo' is requested" in problem


@pytest.mark.parametrize(
    ("key", "setting", "text"),
    [
        (
            "trt_bogus",
            "1",
            "unknown parameter 'trt_bogus' is provided for TensorRT Execution Accelerator",
        ),
        ("precision_mode", "FP99", "unsupported precision mode 'FP99' is requested"),
        ("trt_dla_enable", "maybe", "failed to convert 'maybe' to boolean"),
        (
            "max_workspace_size_bytes",
            "abc",
            "failed to convert 'abc' to unsigned long long integral number",
        ),
    ],
)
def test_backend_061_parameters_of_tensorrt_are_checked(yard, key, setting, text):
    config = accelerator("gpu", "tensorrt", **{key: setting})
    assert f"Invalid argument: {text}" in yard.problem("tensorrt", identity(), config)


@pytest.mark.parametrize(
    ("kind", "name", "provider"),
    [
        ("gpu", "tensorrt", "TensorrtExecutionProvider"),
        ("gpu", "cuda", "CUDAExecutionProvider"),
        ("cpu", "openvino", "OpenVINOExecutionProvider"),
    ],
)
def test_backend_062_an_accelerator_that_is_not_there_fails_the_load(yard, kind, name, provider):
    import onnxruntime

    if provider in onnxruntime.get_available_providers():
        pytest.skip(f"this ONNX Runtime has {provider}")
    problem = yard.problem(f"lacks_{name}", identity(), accelerator(kind, name))
    assert f"Unavailable: execution provider {provider} is not part of the installed" in problem


def test_backend_063_strings_come_back_as_they_went_in(yard, client):
    yard.load("strings", identity("BYTES"))
    given = np.array([[b"a", b"", "é".encode()]], object)
    answer = client.ask("strings", {"INPUT0": given}).as_numpy("OUTPUT0")
    assert answer.tolist() == given.tolist()


def words():
    """INDEX INT64 [1] → WORD: "a", "b", or bytes that are no text."""
    table = numpy_helper.from_array(np.array([b"a", b"b", b"\xff\xfe"], object), "table")
    return graph_of(
        [helper.make_node("Gather", ["table", "INDEX"], ["WORD"])],
        [value("INDEX", TensorProto.INT64, ["rows", 1])],
        [value("WORD", TensorProto.STRING, ["rows", 1])],
        [table],
    )


def test_backend_063_an_output_that_is_no_text_fails_its_own_request_only(yard, client):
    yard.load("words", words(), f"max_batch_size: 8 {DELAY}")
    answers: dict[int, object] = {}
    began = threading.Barrier(3)

    def ask(index: int) -> None:
        own = Client(yard.server, client.kind)
        began.wait()
        try:
            result = own.ask("words", {"INDEX": np.array([[index]], np.int64)})
            answers[index] = result.as_numpy("WORD").tolist()
        except InferenceServerException as error:
            answers[index] = str(error)
        own.close()

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == [[b"a"]]
    assert answers[1] == [[b"b"]]
    assert "holds a string that is not UTF-8" in str(answers[2])


def test_backend_064_every_pattern_of_bf16_comes_back(yard, client):
    yard.load("halves", identity("BF16"))
    given = np.arange(0x10000, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(1, -1)
    result = client.ask("halves", {"INPUT0": given}, datatype="BF16")
    answer = result.as_numpy("OUTPUT0").astype(ml_dtypes.bfloat16)
    assert answer.tobytes() == given.tobytes()


def test_backend_065_a_batch_above_the_largest_is_refused(yard, client):
    """By the core, as in Triton: the backend's own text for it never reaches a client."""
    yard.load("four", identity("FP32", (3,)), "max_batch_size: 4")
    with pytest.raises(InferenceServerException) as caught:
        client.ask("four", {"INPUT0": np.ones((5, 3), np.float32)})
    assert "inference request batch-size must be <= 4 for 'four'" in str(caught.value)


def test_backend_066_a_run_that_fails_fails_every_request_of_its_batch(yard, client):
    yard.load("failing", failing(), f"max_batch_size: 8 {DELAY}")
    problems: list[str] = []
    began = threading.Barrier(2)

    def ask(index: int) -> None:
        own = Client(yard.server, client.kind)
        began.wait()
        with pytest.raises(InferenceServerException) as caught:
            own.ask("failing", {"INDEX": np.array([[index]], np.int64)})
        problems.append(str(caught.value))
        own.close()

    # Only one of the two indexes is out of bounds.
    threads = [threading.Thread(target=ask, args=(index,)) for index in (1, 99)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(problems) == 2
    assert all("onnx runtime error 2: " in problem for problem in problems)


def test_backend_067_files_that_do_not_load_carry_the_code_of_onnx_runtime(yard):
    directory = write_model(yard.repository, "broken", identity())
    (directory / "1/model.onnx").write_bytes(b"no model")
    assert "onnx runtime error 7: " in yard.problem_of_files("broken")
    (directory / "1/model.onnx").unlink()
    (directory / "config.pbtxt").write_text('backend: "onnxruntime"')
    problem = yard.problem_of_files("broken")
    assert "Unavailable: unable to find '" in problem
    assert "/broken/1/model.onnx' for model instance 'broken'" in problem
    unknown = graph_of(
        [helper.make_node("FooBar", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [1])],
    )
    problem = yard.problem("unknown", unknown)
    assert "onnx runtime error 10: " in problem
    assert "FooBar" in problem


def test_backend_068_outputs_nobody_asked_for_are_computed_and_not_returned(yard, client):
    table = numpy_helper.from_array(np.arange(3, dtype=np.int64), "table")
    model = graph_of(
        [
            helper.make_node("Identity", ["INDEX"], ["SAME"]),
            helper.make_node("Gather", ["table", "INDEX"], ["FOUND"]),
        ],
        [value("INDEX", TensorProto.INT64, ["rows", 1])],
        [value(name, TensorProto.INT64, ["rows", 1]) for name in ("SAME", "FOUND")],
        [table],
    )
    yard.load("two_outputs", model)
    result = client.ask("two_outputs", {"INDEX": np.array([[2]], np.int64)}, outputs=["SAME"])
    assert result.as_numpy("SAME").tolist() == [[2]]
    assert result.as_numpy("FOUND") is None
    with pytest.raises(InferenceServerException, match="onnx runtime error 2: "):
        client.ask("two_outputs", {"INDEX": np.array([[9]], np.int64)}, outputs=["SAME"])
