"""Tiny ONNX graphs built on the fly, and the directory they are served from; no binaries in git."""

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 17

ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
    "BF16": TensorProto.BFLOAT16,
}

Dims = tuple[int | str, ...]


def add_sub(datatype="INT32", dims: Dims = (16,), *, batching=True) -> ModelProto:
    """OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1."""
    nodes = [
        helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
        helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
    ]
    ports = {name: _port(name, datatype, dims, batching) for name in _ADD_SUB_PORTS}
    return _model(
        "add_sub",
        nodes,
        [ports["INPUT0"], ports["INPUT1"]],
        [ports["OUTPUT0"], ports["OUTPUT1"]],
    )


_ADD_SUB_PORTS = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")


def identity(datatype="FP32", dims: Dims = ("n",), *, batching=True) -> ModelProto:
    """OUTPUT0 = INPUT0, any datatype; dims () without batching is a scalar."""
    return _model(
        "identity",
        [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
        [_port("INPUT0", datatype, dims, batching)],
        [_port("OUTPUT0", datatype, dims, batching)],
    )


def add_constant(constant: float, dims: Dims = (4,), *, batching=True) -> ModelProto:
    """OUTPUT0 = INPUT0 + constant (FP32): versions one can tell apart by their answers."""
    return _model(
        "add_constant",
        [helper.make_node("Add", ["INPUT0", "constant"], ["OUTPUT0"])],
        [_port("INPUT0", "FP32", dims, batching)],
        [_port("OUTPUT0", "FP32", dims, batching)],
        [numpy_helper.from_array(np.array(constant, np.float32), "constant")],
    )


def mlp(seed=0) -> ModelProto:
    """784-256-10, FP32, random weights: x → y."""
    random = np.random.RandomState(seed)
    weights = [
        numpy_helper.from_array((random.randn(784, 256) * 0.05).astype(np.float32), "w1"),
        numpy_helper.from_array(np.zeros(256, np.float32), "b1"),
        numpy_helper.from_array((random.randn(256, 10) * 0.05).astype(np.float32), "w2"),
        numpy_helper.from_array(np.zeros(10, np.float32), "b2"),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"]),
    ]
    return _model(
        "mlp",
        nodes,
        [_port("x", "FP32", (784,), True)],
        [_port("y", "FP32", (10,), True)],
        weights,
    )


def failing() -> ModelProto:
    """OUTPUT0 = 10 × INDEX (INT64) for INDEX in 0..9; an INDEX of 10 or more makes the run itself fail."""
    table = numpy_helper.from_array(np.arange(0, 100, 10, dtype=np.int64), "table")
    return _model(
        "failing",
        [helper.make_node("Gather", ["table", "INDEX"], ["OUTPUT0"])],
        [_port("INDEX", "INT64", (1,), True)],
        [_port("OUTPUT0", "INT64", (1,), True)],
        [table],
    )


def ragged_sums() -> ModelProto:
    """X flat, ENDS: where each request ends → SUM of each request, DOUBLE = 2 X flat."""
    constants = [
        numpy_helper.from_array(np.array(value, dtype), name)
        for name, value, dtype in (
            ("zero", [0.0], np.float32),
            ("two", 2.0, np.float32),
            ("axis", 0, np.int64),
            ("first", [0], np.int64),
            ("second", [1], np.int64),
            ("last", [-1], np.int64),
            ("end", [2**31 - 1], np.int64),
            ("column", [-1, 1], np.int64),
        )
    ]
    nodes = [
        helper.make_node("Concat", ["zero", "X"], ["padded"], axis=0),
        helper.make_node("CumSum", ["padded", "axis"], ["running"]),
        helper.make_node("Gather", ["running", "ENDS"], ["at"]),
        helper.make_node("Slice", ["at", "second", "end"], ["to"]),
        helper.make_node("Slice", ["at", "first", "last"], ["from"]),
        helper.make_node("Sub", ["to", "from"], ["flat"]),
        helper.make_node("Reshape", ["flat", "column"], ["SUM"]),
        helper.make_node("Mul", ["X", "two"], ["DOUBLE"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sums",
        [
            helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("ENDS", TensorProto.INT32, ["b1"]),
        ],
        [
            helper.make_tensor_value_info("SUM", TensorProto.FLOAT, ["b", 1]),
            helper.make_tensor_value_info("DOUBLE", TensorProto.FLOAT, ["n"]),
        ],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def slow(size=256) -> ModelProto:
    """Multiplies a size × size matrix ITERATIONS times (INT64 [1]): as slow as the request asks.

    Does not batch: ITERATIONS [1] → OUTPUT0 FP32 [1]. About 0.2 ms per iteration at size 256.
    """
    matrix = np.eye(size, dtype=np.float32)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["keep_in"], ["keep_out"]),
            helper.make_node("MatMul", ["state_in", "matrix"], ["state_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("iteration", TensorProto.INT64, []),
            helper.make_tensor_value_info("keep_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state_in", TensorProto.FLOAT, [size, size]),
        ],
        [
            helper.make_tensor_value_info("keep_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state_out", TensorProto.FLOAT, [size, size]),
        ],
    )
    nodes = [
        helper.make_node("Squeeze", ["ITERATIONS"], ["trips"]),
        helper.make_node("Loop", ["trips", "keep", "matrix"], ["state"], body=body),
        helper.make_node("ReduceMean", ["state"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "axes"], ["OUTPUT0"]),
    ]
    constants = [
        numpy_helper.from_array(matrix, "matrix"),
        numpy_helper.from_array(np.array(True), "keep"),
        numpy_helper.from_array(np.array([0], np.int64), "axes"),
    ]
    return _model(
        "slow",
        nodes,
        [_port("ITERATIONS", "INT64", (1,), False)],
        [_port("OUTPUT0", "FP32", (1,), False)],
        constants,
    )


def write_model(
    repository: Path, name: str, model: ModelProto, *, version=1, config: str | None = None
) -> Path:
    """Writes `<repository>/<name>/<version>/model.onnx` (and config.pbtxt when given); returns the model's directory."""
    directory = repository / name
    (directory / str(version)).mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(directory / str(version) / "model.onnx"))
    if config is not None:
        (directory / "config.pbtxt").write_text(config)
    return directory


def write_versions(repository: Path, *versions: int, name="versions", policy="all { }") -> None:
    """Each adds its number to what it is given."""
    config = f"version_policy {{ {policy} }}"
    for version in versions:
        write_model(repository, name, add_constant(version), version=version, config=config)


def _port(name: str, datatype: str, dims: Dims, batching: bool):
    shape = ["batch", *dims] if batching else list(dims)
    return helper.make_tensor_value_info(name, ONNX_TYPES[datatype], shape)


def _model(name, nodes, inputs, outputs, constants=()) -> ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model
