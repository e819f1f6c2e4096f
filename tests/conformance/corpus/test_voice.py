"""Spoken words as a sequence: the server remembers what the model needs from chunk to chunk."""

import numpy as np
import pytest

from stack.corpus import recordings, voice
from stack.corpus.wheels import FetchFailed
from tests.conformance.corpus.example_server import session

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
WORDS = [*range(3, 16), *range(25, 44)]  # "front", "center"


@pytest.fixture(scope="module")
def spoken(corpus):
    """Name of a recording → its chunks."""

    def chunks(name: str) -> np.ndarray:
        try:
            return voice.chunks(recordings.recording(name, corpus.root / "packages"))
        except FetchFailed as problem:
            pytest.skip(str(problem))

    return chunks


def listen(client, chunks, sequence: int, *, forgetful: bool = False) -> np.ndarray:
    """The probability of speech in each chunk; `forgetful`: every chunk starts a sequence."""
    found = []
    last = len(chunks) - 1
    for number, chunk in enumerate(chunks):
        flags = {
            "sequence_start": forgetful or number == 0,
            "sequence_end": forgetful or number == last,
        }
        result = client.ask("voice_activity", {"audio": chunk[None]}, sequence_id=sequence, **flags)
        found.append(float(result.as_numpy("speech_prob")[0, 0]))
    return np.array(found)


def published(corpus, chunks) -> np.ndarray:
    """What the graph as its authors publish it says, its state carried by hand."""
    assert corpus.voice.file.exists()
    model = session(next((corpus.root / "packages").rglob("silero_vad_op18_ifless.onnx")))
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
    found = []
    for chunk in chunks:
        x = np.concatenate([context, chunk[None]], 1)
        feed = {"input": x, "state": state, "sr": np.array(voice.RATE)}
        speech, state = model.run(None, feed)
        context = x[:, -64:]
        found.append(float(speech[0, 0]))
    return np.array(found)


def test_two_words_are_heard_where_they_are(client, spoken, corpus):
    chunks = spoken("Front_Center")
    found = listen(client, chunks, 7)
    assert len(found) == 44
    assert np.flatnonzero(found > 0.5).tolist() == WORDS
    assert np.abs(found - published(corpus, chunks)).max() < 1e-5


def test_noise_is_no_speech(client, spoken):
    assert listen(client, spoken("Noise"), 8).max() < 0.04


def test_a_sequence_that_is_forgotten_would_be_noticed(client, spoken):
    chunks = spoken("Front_Center")
    apart = listen(client, chunks, 9) - listen(client, chunks, 10, forgetful=True)
    assert np.abs(apart).max() > 0.9


def test_speakers_who_take_turns_do_not_mix(client, spoken):
    front, rear = spoken("Front_Center"), spoken("Rear_Left")
    count = min(len(front), len(rear))
    alone = {11: listen(client, front[:count], 11), 12: listen(client, rear[:count], 12)}
    found: dict[int, list[float]] = {11: [], 12: []}
    for number in range(count):
        for sequence, chunks in ((11, front), (12, rear)):
            result = client.ask(
                "voice_activity",
                {"audio": chunks[number][None]},
                sequence_id=sequence,
                sequence_start=number == 0,
                sequence_end=number == count - 1,
            )
            found[sequence].append(float(result.as_numpy("speech_prob")[0, 0]))
    for sequence, expected in alone.items():
        assert np.abs(np.array(found[sequence]) - expected).max() < 1e-6
