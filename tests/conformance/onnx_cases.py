"""The backend test data of the `onnx` wheel as cases for a server: a graph, inputs, and what ONNX Runtime itself answers.

A case is in scope when every port is a plain tensor of a v2 datatype and ONNX Runtime, asked directly
with the settings the server uses, loads and runs it. What the wheel ships as the answer is not
consulted: a server has to give what the library gives, no more and no less. No case needs a
config.pbtxt: auto-completion finds max_batch_size 0 and every port, a scalar as dims [1].
"""

import ctypes
import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnxruntime
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from tests.onnx_models import ONNX_TYPES

Array = np.ndarray[Any, Any]

KINDS = ("simple", "pytorch-operator", "pytorch-converted")
DATATYPES = {number: wire for wire, number in ONNX_TYPES.items()}
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# ONNX Runtime runs these, but no two runs agree, so that there is nothing to compare.
_MASK = "Dropout in training mode draws its mask"
RANDOM_CASES = {
    "test_training_dropout": _MASK,
    "test_training_dropout_default": _MASK,
    "test_training_dropout_default_mask": _MASK,
    "test_training_dropout_mask": _MASK,
}


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    datatype: str
    shape: tuple[int, ...]  # as the file declares it; -1: open


@dataclass(frozen=True, slots=True)
class Case:
    name: str  # also that of the model it is served as
    model: ModelProto
    data: tuple[tuple[Array, ...], ...]  # per data set: one array per input that has no default
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def datatypes(self) -> set[str]:
        return {port.datatype for port in (*self.inputs, *self.outputs)}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to a model, and the answer of ONNX Runtime."""

    case: Case
    given: dict[str, Array]
    expected: dict[str, Array]


def all_cases() -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel's own arithmetic overflows here and there
        tests = [*load_model_tests(kind="node")]
        for kind in KINDS:
            tests += load_model_tests(kind=kind)
    return _cases(sorted(tests, key=lambda test: test.name))


def node_cases_of(modules: Iterable[str]) -> Iterator[Case]:
    """The cases of some of the wheel's modules: making all of them takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules:
            importlib.import_module(f"{node_cases.__name__}.{module}")
    return _cases(sorted(node_cases._NodeTestCases, key=lambda test: test.name))


def _cases(tests: Iterable[Any]) -> Iterator[Case]:
    for test in tests:
        model = test.model or onnx.load(Path(test.model_dir) / "model.onnx")
        plain = all(_is_plain(port) for port in (*model.graph.input, *model.graph.output))
        if plain and test.name not in RANDOM_CASES:
            yield _case(test, model)


def _case(test: Any, model: ModelProto) -> Case:
    given_by_file = {weight.name for weight in model.graph.initializer}
    inputs = tuple(_port(port) for port in model.graph.input if port.name not in given_by_file)
    sets = test.data_sets or [(_inputs_in(each), ()) for each in _data_directories(test)]
    data = tuple(tuple(_array(value) for value in inputs) for inputs, _ in sets)
    return Case(test.name, model, data, inputs, tuple(map(_port, model.graph.output)))


def _is_plain(port: Any) -> bool:
    return bool(
        port.type.WhichOneof("value") == "tensor_type"
        and port.type.tensor_type.elem_type in DATATYPES
    )


def _port(port: Any) -> Port:
    tensor = port.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return Port(port.name, DATATYPES[tensor.elem_type], shape)


def _data_directories(test: Any) -> list[Path]:
    return sorted(Path(test.model_dir).glob("test_data_set_*"))


def _inputs_in(directory: Path) -> list[TensorProto]:
    count = len(list(directory.glob("input_*.pb")))
    return [onnx.load_tensor(directory / f"input_{number}.pb") for number in range(count)]


def _array(value: Any) -> Array:
    """Cases hold arrays, numpy scalars or TensorProtos."""
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


# What ONNX Runtime answers


def exchanges(case: Case) -> list[Exchange]:
    """Empty where ONNX Runtime does not load or run the case."""
    try:
        session = _session(case.model)
        return [_ask(session, case, data) for data in case.data]
    except Exception:  # noqa: BLE001  whatever it says: the case is out of scope
        return []


def _session(model: ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _ask(session: Any, case: Case, data: Sequence[Array]) -> Exchange:
    names = [port.name for port in session.get_inputs()]
    given = dict(zip(names, data, strict=True))
    outputs = [port.name for port in case.outputs]
    if "BF16" in case.datatypes:
        values = {name: _value(array) for name, array in given.items()}
        answers = [_content(v) for v in session.run_with_ort_values(outputs, values)]
    else:
        answers = [np.asarray(answer) for answer in session.run(outputs, given)]
    return Exchange(case, given, dict(zip(outputs, answers, strict=True)))


def _value(array: Array) -> Any:
    value = onnxruntime.OrtValue
    if array.dtype == _BFLOAT16:
        bits = array.copy(order="C").view(np.uint16)
        return value.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    return value.ortvalue_from_numpy(array)


def _content(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        return np.asarray(value.numpy())
    shape = value.shape()
    size = int(np.prod(shape)) * _BFLOAT16.itemsize
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), _BFLOAT16).reshape(shape)
