"""Strings into and out of an ONNX model, beside numbers: species of penguins."""

import numpy as np
import pytest

from stack.corpus.models import WrongAnswer
from tests.conformance.corpus.example_server import session

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
BIRD = {
    "island": np.array([["Dream"]], object),
    "sex": np.array([["male"]], object),
    "bill_length_mm": np.array([[49.0]], np.float32),
    "bill_depth_mm": np.array([[19.5]], np.float32),
    "flipper_length_mm": np.array([[210.0]], np.float32),
    "body_mass_g": np.array([[3950.0]], np.float32),
}


@pytest.fixture(scope="module")
def birds(corpus):
    return corpus.penguins.samples[0]


def test_a_known_bird_is_a_chinstrap(client):
    result = client.ask("penguins", BIRD)
    assert result.as_numpy("label").tolist() == [[b"Chinstrap"]]
    assert abs(result.as_numpy("probabilities")[0, 1] - 0.930) < 0.001


def test_birds_that_it_has_not_seen(client, birds, corpus):
    result = client.ask("penguins", dict(birds.inputs))
    label, probabilities = result.as_numpy("label"), result.as_numpy("probabilities")
    assert birds.judge({"label": label}) == "98.8% of the birds right"
    expected = session(corpus.penguins.file).run(["label", "probabilities"], dict(birds.inputs))
    assert [name.decode() for name in label.ravel()] == expected[0].tolist()
    assert np.abs(probabilities - expected[1]).max() < 1e-6
    with pytest.raises(WrongAnswer):
        birds.judge({"label": label[::-1]})


def test_an_island_that_it_does_not_know_is_no_error(client):
    odd = {**BIRD, "island": np.array([["Île de la Possession 🐧"]], object)}
    assert client.ask("penguins", odd).as_numpy("label").shape == (1, 1)
