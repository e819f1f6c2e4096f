"""What is measured: a model file, one item of real input, and how its answer is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def batch_of(item: Tensors, size: int) -> dict[str, NDArray[Any]]:
    return {name: np.repeat(array, size, axis=0) for name, array in item.items()}
