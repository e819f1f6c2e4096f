"""The generated models: an addition, a small perceptron, a ResNet-18 with random weights, a mean."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 17
_STAGES = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))


def tiny(folder: Path) -> Path:
    """Sum and difference of two INT32[16]: nothing but the way there and back."""
    ports = [
        _port(name, TensorProto.INT32, 16) for name in ("INPUT0", "INPUT1", "SUM", "DIFFERENCE")
    ]
    nodes = [
        helper.make_node("Add", ["INPUT0", "INPUT1"], ["SUM"]),
        helper.make_node("Sub", ["INPUT0", "INPUT1"], ["DIFFERENCE"]),
    ]
    return _save(folder, helper.make_graph(nodes, "tiny", ports[:2], ports[2:]))


def mlp(folder: Path) -> Path:
    """784 → 256 → 10, FP32: about 10 µs."""
    weights = _Weights(0)
    nodes = [
        helper.make_node("Gemm", ["x", *weights.dense(784, 256)], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", *weights.dense(256, 10)], ["y"]),
    ]
    ports = [_port("x", TensorProto.FLOAT, 784)], [_port("y", TensorProto.FLOAT, 10)]
    return _save(folder, helper.make_graph(nodes, "mlp", *ports, weights.tensors))


def cnn(folder: Path) -> Path:
    """ResNet-18's topology on 3×224×224, batch normalisation folded: about 20 ms on one core."""
    net = _Residual()
    flow = net.convolution("input", 3, 64, size=7, stride=2)
    net.node("MaxPool", [flow], "pooled", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    flow, width = "pooled", 64
    for wide, stride in _STAGES:
        inner = net.convolution(flow, width, wide, size=3, stride=stride)
        inner = net.convolution(inner, wide, wide, size=3, stride=1, active=False)
        past = flow
        if stride != 1 or width != wide:
            past = net.convolution(flow, width, wide, size=1, stride=stride, active=False)
        flow, width = net.joined(inner, past), wide
    net.node("GlobalAveragePool", [flow], "mean")
    net.node("Flatten", ["mean"], "features")
    net.node("Gemm", ["features", *net.weights.dense(512, 1000)], "output")
    ports = (
        [_port("input", TensorProto.FLOAT, 3, 224, 224)],
        [_port("output", TensorProto.FLOAT, 1000)],
    )
    return _save(folder, helper.make_graph(net.nodes, "cnn", *ports, net.weights.tensors))


def picture(folder: Path) -> Path:
    """The mean of each channel: next to nothing is computed, 588 KiB have to come in."""
    node = helper.make_node("GlobalAveragePool", ["image"], ["means"])
    ports = (
        [_port("image", TensorProto.FLOAT, 3, 224, 224)],
        [_port("means", TensorProto.FLOAT, 3, 1, 1)],
    )
    return _save(folder, helper.make_graph([node], "picture", *ports))


class _Weights:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.tensors: list[Any] = []

    def dense(self, width: int, outputs: int) -> list[str]:
        return self.pair((width, outputs), 0.05, outputs)

    def pair(self, shape: tuple[int, ...], scale: float, outputs: int) -> list[str]:
        number = len(self.tensors)
        names = [f"weight{number}", f"bias{number}"]
        values = (self._random.standard_normal(shape) * scale).astype(np.float32)
        self.tensors.append(numpy_helper.from_array(values, names[0]))
        self.tensors.append(numpy_helper.from_array(np.zeros(outputs, np.float32), names[1]))
        return names


class _Residual:
    """Nodes in their order; names are numbered."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights = _Weights(1)

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(
        self, source: str, width: int, wide: int, *, size: int, stride: int, active: bool = True
    ) -> str:
        shape = (wide, width, size, size)
        names = self.weights.pair(shape, (2 / (width * size * size)) ** 0.5, wide)
        name = self.node(
            "Conv", [source, *names], f"conv{len(self.nodes)}",
            kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4,
        )  # fmt: skip
        return self.node("Relu", [name], f"relu{len(self.nodes)}") if active else name

    def joined(self, inner: str, past: str) -> str:
        name = self.node("Add", [inner, past], f"sum{len(self.nodes)}")
        return self.node("Relu", [name], f"relu{len(self.nodes)}")


def _port(name: str, kind: int, *dims: int) -> Any:
    return helper.make_tensor_value_info(name, kind, ["batch", *dims])


def _save(folder: Path, graph: Any) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    file = folder / f"{graph.name}.onnx"
    onnx.save(model, str(file))
    return file
