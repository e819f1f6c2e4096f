"""What is measured: a model file, one item of real input, and how its answer is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from bench import graphs
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


def generated_subjects(folder: Path) -> dict[str, Subject]:
    """The three that goals speak of: where the server is all the cost, half of it, and next to nothing."""
    small = np.arange(16, dtype=np.int32).reshape(1, 16)
    random = np.random.default_rng(7)
    pixels = random.random((1, 784), np.float32)
    image = random.random((1, 3, 224, 224), np.float32)

    def adds(out: Tensors) -> None:
        np.testing.assert_array_equal(out["SUM"], small + small[:, ::-1])
        np.testing.assert_array_equal(out["DIFFERENCE"], small - small[:, ::-1])

    subjects = [
        Subject("tiny", graphs.tiny(folder), {"INPUT0": small, "INPUT1": small[:, ::-1]}, 32, adds),
        _like_the_file("mlp", graphs.mlp(folder), {"x": pixels}, 32),
        _like_the_file("cnn", graphs.cnn(folder), {"input": image}, 8),
    ]
    return {subject.name: subject for subject in subjects}


def picture_subject(folder: Path) -> Subject:
    """An item of 588 KiB before a model that does next to nothing: what is measured is the way there."""
    shape = (1, 3, 224, 224)
    item = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)

    def check(out: Tensors) -> None:
        np.testing.assert_allclose(out["means"].ravel(), item.mean((0, 2, 3)), rtol=1e-3)

    return Subject("picture", graphs.picture(folder), {"image": item}, 8, check)


def _like_the_file(name: str, file: Path, item: Tensors, batch: int) -> Subject:
    """Judged by what ONNX Runtime itself makes of the item."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    output = session.get_outputs()[0].name
    wanted = session.run([output], dict(item))[0]

    def check(out: Tensors) -> None:
        np.testing.assert_allclose(out[output], wanted, rtol=1e-3, atol=1e-4)

    return Subject(name, file, item, batch, check)


def batch_of(item: Tensors, size: int) -> dict[str, NDArray[Any]]:
    return {name: np.repeat(array, size, axis=0) for name, array in item.items()}
