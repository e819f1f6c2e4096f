"""SmolLM2-135M-Instruct as ONNX with a cache that goes in and out, built from its GGUF file.

The published weights are four-bit blocks; they become FP32 here. Greedy decoding needs one run per
token: the token and `past` go in, the next token and `present` come out, and `present` is the next `past`.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, KEY_HEADS, HEAD_SIZE = 30, 9, 3, 64
END = 2  # <|im_end|>
_WIDTH = HEADS * HEAD_SIZE
_EPSILON = 1e-5
_ROTARY_BASE = 100_000.0
_CACHE: list[str | int | None] = ["batch", LAYERS, 2, KEY_HEADS, "past", HEAD_SIZE]


def build(gguf_file: Path, target: Path) -> None:
    """Makes the directory `target` with `model.onnx`, its weights beside it, and `tokenizer.json`."""
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(gguf_file)
    weights = {
        tensor.name: np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(
            [int(size) for size in tensor.shape][::-1]
        )
        for tensor in reader.tensors
    }
    staged = target.with_suffix(".partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    onnx.save(
        _model(weights),
        str(staged / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=1024,
    )
    _tokenizer(reader).save(str(staged / "tokenizer.json"))
    staged.rename(target)


def _tokenizer(reader: Any) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds: list[int] = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t, kind in zip(tokens, kinds, strict=True) if kind == control]
    )  # fmt: skip
    return tokenizer


@dataclass
class _Graph:
    weights: dict[str, NDArray[Any]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: Any, dtype: Any = np.int64) -> str:
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value, dtype, "C"), name)
        return name

    def indices(self, *values: int) -> str:
        return self.constant("_".join(["i", *map(str, values)]), values)

    def weight(self, name: str, *, transposed: bool = False) -> str:
        array = self.weights[f"{name}.weight"]
        return self.constant(name, array.T if transposed else array, np.float32)

    def node(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """The (first) output, which is named after the node's place unless it is given."""
        made = list(outputs) or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made[0]

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.indices(*shape))

    def linear(self, x: str, name: str) -> str:
        return self.node("MatMul", x, self.weight(name, transposed=True))

    def norm(self, x: str, name: str) -> str:
        """Root mean square, in the nodes that ONNX Runtime makes one of."""
        squares = self.node("Pow", x, self.constant("two", 2, np.float32))
        mean = self.node("ReduceMean", squares, axes=[-1], keepdims=1)
        level = self.node("Add", mean, self.constant("epsilon", _EPSILON, np.float32))
        scaled = self.node("Div", x, self.node("Sqrt", level))
        return self.node("Mul", scaled, self.weight(name))

    def heads(self, x: str, count: int) -> str:
        """[batch, time, count·64] → [batch, count, time, 64]."""
        return self.node("Transpose", self.reshape(x, 0, 0, count, HEAD_SIZE), perm=[0, 2, 1, 3])


@dataclass(frozen=True)
class _Positions:
    """What every layer asks of the positions: rotations, and who may look at whom."""

    cosine: str
    sine: str
    mask: str

    @classmethod
    def of(cls, g: _Graph) -> "_Positions":
        one, zero = g.constant("step", 1), g.constant("start", 0)
        past = g.node("Gather", g.node("Shape", "past"), g.constant("past_axis", 4))
        new = g.node("Gather", g.node("Shape", "input_ids"), g.constant("new_axis", 1))
        total = g.node("Add", past, new)
        rows = g.node("Unsqueeze", g.node("Range", past, total, one), g.indices(1))
        columns = g.node("Range", zero, total, one)
        mask = g.node(
            "Where",
            g.node("Greater", columns, rows),
            g.constant("hidden", -1e9, np.float32),
            g.constant("seen", 0, np.float32),
        )
        speeds = _ROTARY_BASE ** -(np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
        angles = g.node(
            "Mul",
            g.node("Cast", rows, to=TensorProto.FLOAT),
            g.constant("speeds", [*speeds, *speeds], np.float32),
        )
        return cls(g.node("Cos", angles), g.node("Sin", angles), mask)

    def rotate(self, g: _Graph, x: str) -> str:
        halves = [f"v{len(g.nodes)}_{half}" for half in ("left", "right")]
        g.node("Split", x, outputs=halves, axis=-1)
        turned = g.node("Concat", g.node("Neg", halves[1]), halves[0], axis=-1)
        return g.node("Add", g.node("Mul", x, self.cosine), g.node("Mul", turned, self.sine))


def _attention(g: _Graph, x: str, layer: int, positions: _Positions) -> tuple[str, str]:
    """The layer's answer, and its part of `present`."""
    name = f"blk.{layer}.attn"
    past = g.node("Gather", "past", g.constant(f"layer_{layer}", layer), axis=1)
    queries = positions.rotate(g, g.heads(g.linear(x, f"{name}_q"), HEADS))
    keys = positions.rotate(g, g.heads(g.linear(x, f"{name}_k"), KEY_HEADS))
    values = g.heads(g.linear(x, f"{name}_v"), KEY_HEADS)
    keys, values = (
        g.node("Concat", g.node("Gather", past, g.constant(f"part_{part}", part), axis=1), new, axis=2)
        for part, new in enumerate((keys, values))
    )  # fmt: skip
    # Three heads of queries share one of keys; laid one under the other they are one product.
    group = HEADS // KEY_HEADS
    queries = g.reshape(queries, 0, KEY_HEADS, -1, HEAD_SIZE)
    scores = g.node("MatMul", queries, g.node("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = g.node("Mul", scores, g.constant("scale", HEAD_SIZE**-0.5, np.float32))
    flat = g.node("Shape", scores)
    square = g.node("Shape", positions.mask)
    by_head = g.node(
        "Concat", g.node("Slice", flat, g.indices(0), g.indices(2)), g.indices(group), square, axis=0
    )  # fmt: skip
    seen = g.node("Add", g.node("Reshape", scores, by_head), positions.mask)
    shares = g.node("Reshape", g.node("Softmax", seen, axis=-1), flat)
    mixed = g.reshape(g.node("MatMul", shares, values), 0, HEADS, -1, HEAD_SIZE)
    joined = g.reshape(g.node("Transpose", mixed, perm=[0, 2, 1, 3]), 0, 0, _WIDTH)
    kept = g.node(
        "Concat", *(g.node("Unsqueeze", each, g.indices(1, 2)) for each in (keys, values)), axis=2
    )
    return g.linear(joined, f"{name}_output"), kept


def _feed_forward(g: _Graph, x: str, layer: int) -> str:
    gate = g.linear(x, f"blk.{layer}.ffn_gate")
    opened = g.node("Mul", gate, g.node("Sigmoid", gate))
    return g.linear(
        g.node("Mul", opened, g.linear(x, f"blk.{layer}.ffn_up")), f"blk.{layer}.ffn_down"
    )


def _model(weights: dict[str, NDArray[Any]]) -> onnx.ModelProto:
    g = _Graph(_in_published_order(weights))
    positions = _Positions.of(g)
    x = g.node("Gather", g.weight("token_embd"), "input_ids")
    kept = []
    for layer in range(LAYERS):
        answer, cache = _attention(g, g.norm(x, f"blk.{layer}.attn_norm"), layer, positions)
        kept.append(cache)
        x = g.node("Add", x, answer)
        x = g.node("Add", x, _feed_forward(g, g.norm(x, f"blk.{layer}.ffn_norm"), layer))
    last = g.norm(g.node("Gather", x, g.constant("last", -1), axis=1), "output_norm")
    g.node("Gemm", last, g.weight("token_embd"), outputs=["logits"], transB=1)
    g.node("ArgMax", "logits", outputs=["next_token"], axis=-1, keepdims=1)
    g.node("Concat", *kept, outputs=["present"], axis=1)
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes,
        "smollm2",
        [
            port("input_ids", TensorProto.INT64, ["batch", "new"]),
            port("past", TensorProto.FLOAT, _CACHE),
        ],
        [
            port("next_token", TensorProto.INT64, ["batch", 1]),
            port("logits", TensorProto.FLOAT, ["batch", weights["token_embd.weight"].shape[0]]),
            port("present", TensorProto.FLOAT, [*_CACHE[:4], "total", HEAD_SIZE]),
        ],
        list(g.initializers.values()),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _in_published_order(weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """GGUF interleaves the two halves that a rotation turns; the rows of q and k go back."""
    ordered = dict(weights)
    for layer in range(LAYERS):
        for part, heads in (("q", HEADS), ("k", KEY_HEADS)):
            name = f"blk.{layer}.attn_{part}.weight"
            rows = weights[name]
            halves = rows.reshape(heads, HEAD_SIZE // 2, 2, -1).swapaxes(1, 2)
            ordered[name] = halves.reshape(rows.shape)
    return ordered
