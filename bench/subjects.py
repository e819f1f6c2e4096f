"""What is measured: a model file, one item of real input, and how its answer is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from stack.corpus.models import Corpus

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Subject:
    """`item` has a batch axis of one. `batch` is the largest batch the server may form."""

    name: str
    file: Path
    item: Tensors
    batch: int
    check: Callable[[Tensors], object]

    @property
    def config(self) -> str:
        """One instance, one thread: the same that the bare loop is given."""
        return (
            f'name: "{self.name}"\nbackend: "onnxruntime"\nmax_batch_size: {self.batch}\n'
            "dynamic_batching { }\ninstance_group [ { count: 1 kind: KIND_CPU } ]\n"
            'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
        )


def corpus_subjects(corpus: Corpus) -> list[Subject]:
    """LightGBM (microseconds), MiniLM (milliseconds, 16 tokens), EfficientNet-Lite0 (a picture)."""
    table, sentences, pictures = corpus.lightgbm(), corpus.minilm, corpus.efficientnet
    rows = table.samples[0].inputs["input"]
    tokens = corpus.tokenized(["A man is playing an acoustic guitar on a small stage in town."])
    picture = pictures.samples[0]
    return [
        Subject("lightgbm", table.file, {"input": rows[:1]}, 32, lambda out: out["probabilities"]),
        Subject("minilm", sentences.file, tokens, 8, lambda out: out["last_hidden_state"]),
        Subject("efficientnet", pictures.file, picture.inputs, 2, picture.judge),
    ]


def picture_subject(folder: Path) -> Subject:
    """An item of 588 KiB before a model that does next to nothing: what is measured is the way there."""
    shape = [1, 3, 224, 224]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *shape[1:]])
    means = helper.make_tensor_value_info("means", TensorProto.FLOAT, ["batch", 3, 1, 1])
    node = helper.make_node("GlobalAveragePool", ["image"], ["means"])
    graph = helper.make_graph([node], "picture", [image], [means])
    file = folder / "picture.onnx"
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), str(file))
    item = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)

    def check(out: Tensors) -> None:
        np.testing.assert_allclose(out["means"].ravel(), item.mean((0, 2, 3)), rtol=1e-3)

    return Subject("picture", file, {"image": item}, 8, check)


def batch_of(item: Tensors, size: int) -> dict[str, NDArray[Any]]:
    return {name: np.repeat(array, size, axis=0) for name, array in item.items()}
