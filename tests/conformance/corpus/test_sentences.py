"""Sentences through an ensemble: a Python tokenizer, MiniLM, a Python model that pools."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from stack.corpus.models import SENTENCES, embeddings
from tests.conformance.corpus.example_server import session, strings

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
PAIRS = (0.656, 0.389, 0.637)


@pytest.fixture(scope="module")
def direct(corpus):
    """What the tokenizer, ONNX Runtime and numpy make of the sentences."""
    tokens = corpus.tokenized(SENTENCES)
    found = session(corpus.minilm.file).run(["last_hidden_state"], tokens)
    return embeddings({"last_hidden_state": found[0]}, tokens["attention_mask"])


def embed(client, *sentences):
    text = strings(*sentences)[:, None]
    return client.ask("sentence_embedding", {"text": text}).as_numpy("embedding")


def test_sentences_are_nearest_their_paraphrases(client, direct):
    found = embed(client, *SENTENCES)
    assert np.abs(found - direct).max() < 1e-6
    likeness = found @ found.T - 2 * np.eye(6)
    assert likeness.argmax(1).tolist() == [1, 0, 3, 2, 5, 4]
    assert np.abs([likeness[i, i + 1] for i in (0, 2, 4)] - np.array(PAIRS)).max() < 0.01


@pytest.mark.parametrize("client_kind", ["grpc"])
def test_many_at_once_get_the_answers_of_each_alone(world, client, direct):
    before = world.inferences("minilm")
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 8))
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda number: embed(client, SENTENCES[number]), order))
    assert np.abs(np.concatenate(found) - direct[order]).max() < 1e-5
    assert world.inferences("minilm") - before == len(order)


@pytest.mark.parametrize("client_kind", ["grpc"])
def test_text_that_is_none_is_the_error_of_its_request(client, direct):
    texts = [SENTENCES[0], b"\xff\xfe", SENTENCES[1], b"\x80"] * 4

    def ask(text):
        try:
            return embed(client, text)
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, texts))
    for number, answer in enumerate(found):
        if number % 2:
            assert "text must be UTF-8" in answer.message()
            assert answer.status() == "StatusCode.INVALID_ARGUMENT"
        else:
            assert np.abs(answer - direct[number % 4 // 2]).max() < 1e-5


@pytest.mark.parametrize("client_kind", ["http"])
def test_nothing_is_a_sentence_too(client):
    vectors = embed(client, "", "word " * 1000)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
