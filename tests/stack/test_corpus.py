"""The corpus answers what it is known to answer, by ONNX Runtime itself."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from stack.corpus.models import Corpus, CorpusModel, WrongAnswer
from stack.settings import StackSettings

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(StackSettings.read().home / "corpus")


def run(file: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("name", ["efficientnet", "minilm", "lightgbm", "penguins", "voice"])
def test_every_sample_gives_its_known_answer(corpus: Corpus, name: str) -> None:
    found = getattr(corpus, name)
    model: CorpusModel = found() if callable(found) else found
    assert model.samples
    for sample in model.samples:
        assert sample.judge(run(model.file, dict(sample.inputs)))


def test_a_wrong_answer_is_noticed(corpus: Corpus) -> None:
    cat, coffee = corpus.efficientnet.samples[:2]
    outputs = run(corpus.efficientnet.file, dict(coffee.inputs))
    with pytest.raises(WrongAnswer):
        cat.judge(outputs)
    with pytest.raises(WrongAnswer):
        corpus.minilm.samples[0].judge(
            {"last_hidden_state": np.random.default_rng(0).random((6, 13, 384), np.float32)}
        )
