"""EfficientNet-Lite0 as ONNX, built from its published weights (Tan & Le 2019; the Lite variant).

Lite means ReLU6 instead of swish, no squeeze-and-excite, and a stem and head that do not scale.
Convolutions pad as TensorFlow's SAME does, which ONNX calls SAME_UPPER.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from stack.corpus.torch_weights import read_state_dict

# repeats, kernel, stride of the first, expansion, input and output channels
_STAGES = (
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)
_EPSILON = 1e-3


@dataclass
class _Graph:
    weights: dict[str, NDArray[Any]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, x: str, conv: str, norm: str, *, stride: int = 1, groups: int = 1) -> str:
        """A convolution with its batch norm folded into weight and bias."""
        scale = self.weights[f"{norm}.weight"] / np.sqrt(
            self.weights[f"{norm}.running_var"] + _EPSILON
        )
        weight = self.weights[f"{conv}.weight"] * scale[:, None, None, None]
        bias = self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * scale
        return self.node(
            "Conv",
            [x, self.constant(f"{conv}.w", weight), self.constant(f"{conv}.b", bias)],
            f"{conv}.y",
            strides=[stride, stride],
            group=groups,
            auto_pad="SAME_UPPER",
            kernel_shape=list(weight.shape[2:]),
        )

    def relu6(self, x: str) -> str:
        return self.node("Clip", [x, "zero", "six"], f"{x}.relu6")


def _block(g: _Graph, x: str, name: str, *, stride: int, expand: int, skip: bool) -> str:
    y = x
    if expand != 1:
        y = g.relu6(g.convolution(y, f"{name}._expand_conv", f"{name}._bn0"))
    groups = g.weights[f"{name}._depthwise_conv.weight"].shape[0]
    y = g.convolution(y, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=groups)
    y = g.convolution(g.relu6(y), f"{name}._project_conv", f"{name}._bn2")
    return g.node("Add", [y, x], f"{name}.sum") if skip else y


def _features(g: _Graph) -> str:
    g.constant("zero", np.array(0, np.float32))
    g.constant("six", np.array(6, np.float32))
    x = g.relu6(g.convolution("images", "_conv_stem", "_bn0", stride=2))
    index = 0
    for repeats, _kernel, first_stride, expand, channels_in, channels_out in _STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            skip = stride == 1 and (repeat > 0 or channels_in == channels_out)
            x = _block(g, x, f"_blocks.{index}", stride=stride, expand=expand, skip=skip)
            index += 1
    return g.relu6(g.convolution(x, "_conv_head", "_bn1"))


def build(checkpoint: Path, target: Path) -> None:
    """Writes `images` FP32 [N,3,224,224] → `logits` FP32 [N,1000] to `target`."""
    g = _Graph(read_state_dict(checkpoint))
    pooled = g.node("Flatten", [g.node("GlobalAveragePool", [_features(g)], "pool")], "flat")
    weight = g.constant("_fc.w", g.weights["_fc.weight"])
    bias = g.constant("_fc.b", g.weights["_fc.bias"])
    g.node("Gemm", [pooled, weight, bias], "logits", transB=1)
    graph = helper.make_graph(
        g.nodes,
        "efficientnet_lite0",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1000])],
        g.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
