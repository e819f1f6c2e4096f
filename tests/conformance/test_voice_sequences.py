"""A real model with a state: 64 voices at once, each with the answers it gets when it is alone."""

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpcclient

from stack.corpus import voice
from stack.corpus.models import Corpus
from stack.settings import ROOT, StackSettings
from tests.conformance.repeat_model import open_stream
from tests.conformance.sequence_clients import statistics

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
VOICES = 64
STEPS = 30


@pytest.fixture(scope="module")
def model():
    return Corpus(StackSettings.read().home / "corpus").voice


@pytest.fixture(scope="module")
def sounds():
    """[voice, step, sample]; voices of different length."""
    return [
        voice.chunks(voice.sung_vowel(1.0, 100 + 3 * number, number))[: STEPS - number % 7]
        for number in range(VOICES)
    ]


@pytest.fixture(scope="module")
def alone(model, sounds):
    """What ONNX Runtime itself says to each voice, chunk by chunk."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.file, options)
    names = ["speech_prob", "state_out", "context_out"]
    answers = []
    for sound in sounds:
        state, context = np.zeros((1, 2, 128), np.float32), np.zeros((1, 64), np.float32)
        answers.append([])
        for chunk in sound:
            feed = {"audio": chunk[None], "state_in": state, "context": context}
            found, state, context = session.run(names, feed)
            answers[-1].append(float(found[0, 0]))
    return answers


@pytest.fixture(scope="module")
def repository(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    example = ROOT / "examples" / "voice" / "voice_activity" / "config.pbtxt"
    for strategy in ("direct", "oldest"):
        directory = path / f"voice_{strategy}" / "1"
        directory.mkdir(parents=True)
        (directory / "model.onnx").write_bytes(model.file.read_bytes())
        config = example.read_text().replace("direct { }", f"{strategy} {{ }}")
        (directory.parent / "config.pbtxt").write_text(config)
    return path


@pytest.mark.parametrize("strategy", ["direct", "oldest"])
def test_many_voices_at_once_get_the_answers_of_each_alone(server, sounds, alone, strategy):
    name = f"voice_{strategy}"
    owners: list[tuple[int, int]] = []
    with server.grpc_client() as client, open_stream(client) as stream:
        for step in range(STEPS):
            for number, sound in enumerate(sounds):
                if step >= len(sound):
                    continue
                tensor = grpcclient.InferInput("audio", [1, voice.CHUNK], "FP32")
                tensor.set_data_from_numpy(sound[step : step + 1])
                client.async_stream_infer(
                    name,
                    [tensor],
                    request_id=str(len(owners)),
                    sequence_id=1000 + number,
                    sequence_start=step == 0,
                    sequence_end=step == len(sound) - 1,
                )
                owners.append((number, step))
        results = stream.results(len(owners))
    apart = 0.0
    for result in results:
        number, step = owners[int(result.get_response().id)]
        found = float(result.as_numpy("speech_prob")[0, 0])
        apart = max(apart, abs(found - alone[number][step]))
    assert apart < 1e-5
    counts = statistics(server, name)
    assert counts["inferences"] == len(owners)
    assert max(counts["batches"]) > 1


def test_these_answers_depend_on_the_state(model, sounds, alone):
    """Otherwise the test above would prove nothing."""
    session = onnxruntime.InferenceSession(model.file)
    state, context = np.zeros((1, 2, 128), np.float32), np.zeros((1, 64), np.float32)
    feed = {"state_in": state, "context": context}
    without = [
        float(session.run(["speech_prob"], {"audio": chunk[None], **feed})[0][0, 0])
        for chunk in sounds[27]
    ]
    assert max(abs(a - b) for a, b in zip(without, alone[27], strict=True)) > 0.3
