"""The real models through the public doors: uploaded over REST, asked by every form of the protocol."""

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import np_to_triton_dtype

from stack.corpus.models import Corpus, CorpusModel, Tensors
from stack.settings import StackSettings
from tests.e2e.conftest import Stack
from tests.e2e.steps import deploy, publish

pytestmark = [pytest.mark.e2e, pytest.mark.corpus, pytest.mark.timeout(300)]
MODELS = ["efficientnet", "minilm", "lightgbm"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(StackSettings.read().home / "corpus")


def model_of(corpus: Corpus, name: str) -> CorpusModel:
    found = getattr(corpus, name)
    model: CorpusModel = found() if callable(found) else found
    return model


def rows(tensors: Tensors, start: int, stop: int) -> dict[str, Any]:
    return {name: array[start:stop] for name, array in tensors.items()}


def ask(client: Any, module: Any, name: str, tensors: Tensors, *, json: bool) -> dict[str, Any]:
    inputs, outputs = [], None
    for key, array in tensors.items():
        entry = module.InferInput(key, array.shape, np_to_triton_dtype(array.dtype))
        if json:
            entry.set_data_from_numpy(array, binary_data=False)
        else:
            entry.set_data_from_numpy(array)
        inputs.append(entry)
    if json:
        metadata = client.get_model_metadata(name)
        outputs = [
            module.InferRequestedOutput(o["name"], binary_data=False) for o in metadata["outputs"]
        ]
    result = client.infer(name, inputs, outputs=outputs)
    response = result.get_response()
    names = [o["name"] for o in response["outputs"]] if module is triton_http else [
        o.name for o in response.outputs]  # fmt: skip
    return {output: result.as_numpy(output) for output in names}


@pytest.fixture(scope="module")
def served(stack: Stack, corpus: Corpus) -> Stack:
    api = stack.api()
    for name in MODELS:
        model = model_of(corpus, name)
        deploy(api, model.name, publish(api, model.name, model.file))
    return stack


@pytest.mark.parametrize("form", ["http-json", "http-binary", "grpc"])
@pytest.mark.parametrize("name", MODELS)
def test_known_answers_come_back_right(served: Stack, corpus: Corpus, name: str, form: str) -> None:
    module: Any = triton_grpc if form == "grpc" else triton_http
    client = module.InferenceServerClient(served.grpc if form == "grpc" else served.http)
    model = model_of(corpus, name)
    for sample in model.samples:
        count = len(next(iter(sample.inputs.values())))
        parts = [
            ask(
                client,
                module,
                model.name,
                rows(sample.inputs, at, at + 4),
                json=form == "http-json",
            )
            for at in range(0, count, 4)
        ]
        answer = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        assert sample.judge(answer)
    client.close()
