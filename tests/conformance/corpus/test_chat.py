"""Tokens of a language model, streamed by a decoupled Python model that calls it once per token."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tokenizers import Tokenizer

from tests.conformance.corpus.example_server import session, strings
from tests.conformance.repeat_model import inflight, open_stream

pytestmark = [pytest.mark.conformance, pytest.mark.corpus, pytest.mark.slow]
FRANCE = "What is the capital of France?"
SUM = "What is 2+2?"
LONG = "Write a long story about a penguin."
PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
END = 2


@pytest.fixture(scope="module")
def greedy(corpus):
    """Question → the tokens of a loop over ONNX Runtime itself."""
    tokenizer = Tokenizer.from_file(str(corpus.smollm2 / "tokenizer.json"))
    model = session(corpus.smollm2 / "model.onnx")

    def answer(question: str) -> list[int]:
        ids = np.array([tokenizer.encode(PROMPT.format(question)).ids])
        past = np.zeros((1, 30, 2, 3, 0, 64), np.float32)
        found: list[int] = []
        while len(found) < 60:
            feed = {"input_ids": ids, "past": past}
            ids, past = model.run(["next_token", "present"], feed)
            if ids[0, 0] == END:
                return found
            found.append(int(ids[0, 0]))
        raise AssertionError(f"no end: {tokenizer.decode(found)}")

    return {question: answer(question) for question in (FRANCE, SUM)}


def inputs(question: str | bytes, most: int = 60):
    text = grpcclient.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(strings(question))
    limit = grpcclient.InferInput("max_tokens", [1], "INT32")
    limit.set_data_from_numpy(np.array([most], np.int32))
    return [text, limit]


def final(result) -> bool:
    return result.get_response().parameters["triton_final_response"].bool_param


def collect(stream):
    """Tokens and text up to the end."""
    tokens, text = [], ""
    while True:
        result, error = stream.next()
        assert error is None, error
        if final(result):
            return tokens, text
        tokens.append(int(result.as_numpy("token")[0]))
        text += result.as_numpy("text_output")[0].decode()


class EventStream:
    """`generate_stream` over a connection that may be left."""

    def __init__(self, server, question: str, **more) -> None:
        self.connection = HTTPConnection(server.http, timeout=60)
        body = json.dumps({"text_input": question, **more})
        self.connection.request("POST", "/v2/models/chat/generate_stream", body)
        self._socket = self.connection.sock
        self.answer = self.connection.getresponse()

    def __iter__(self):
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    def leave(self) -> None:
        # The answer holds the socket, too: closing alone would not end it.
        self._socket.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()


def test_tokens_over_a_grpc_stream_are_those_of_a_greedy_loop(world, greedy):
    with world.server.grpc_client() as client, open_stream(client) as stream:
        client.async_stream_infer("chat", inputs(FRANCE), enable_empty_final_response=True)
        assert collect(stream) == (greedy[FRANCE], "The capital of France is Paris.")


def test_events_of_generate_stream_are_those_of_a_greedy_loop(world, greedy):
    stream = EventStream(world.server, SUM)
    events = list(stream)
    stream.leave()
    assert stream.answer.status == 200
    assert [event["token"] for event in events] == greedy[SUM]
    assert "".join(event["text_output"] for event in events).endswith(" is 4.")


def test_the_first_token_comes_before_the_last_is_made(world):
    """By either way; how far the model was is what its statistics say."""
    before = world.inferences("smollm2")
    stream = EventStream(world.server, LONG, max_tokens=24)
    events = iter(stream)
    tokens = [next(events)["token"]]
    seen = world.inferences("smollm2") - before
    tokens += [event["token"] for event in events]
    stream.leave()
    assert len(tokens) == 24
    assert seen < 12
    assert world.inferences("smollm2") - before == 24
    with world.server.grpc_client() as client, open_stream(client) as grpc_stream:
        client.async_stream_infer("chat", inputs(LONG, 24), enable_empty_final_response=True)
        first, error = grpc_stream.next()
        assert error is None
        assert world.inferences("smollm2") - before < 24 + 12
        assert [int(first.as_numpy("token")[0]), *collect(grpc_stream)[0]] == tokens


def assert_stopped(world) -> None:
    """No request is left, and no step is made but those of the chat that comes after."""
    server = world.server
    for model in ("chat", "smollm2"):
        server.wait_for(lambda model=model: inflight(server, model) == 0, f"the end of {model}")
    before = world.inferences("smollm2")
    stream = EventStream(server, LONG, max_tokens=5)
    assert len(list(stream)) == 5
    stream.leave()
    assert world.inferences("smollm2") - before == 5


def test_a_cancelled_grpc_stream_stops_the_generation(world):
    before = world.inferences("smollm2")
    with world.server.grpc_client() as client, open_stream(client) as stream:
        client.async_stream_infer("chat", inputs(LONG, 900), enable_empty_final_response=True)
        assert len(stream.results(3)) == 3
    assert_stopped(world)
    assert world.inferences("smollm2") - before < 300


def test_a_client_that_leaves_its_event_stream_stops_the_generation(world):
    before = world.inferences("smollm2")
    stream = EventStream(world.server, LONG, max_tokens=900)
    events = iter(stream)
    assert [next(events)["text_output"] for _ in range(3)]
    stream.leave()
    assert_stopped(world)
    assert world.inferences("smollm2") - before < 300


def test_chats_at_the_same_time_do_not_mix(world, greedy):
    def ask(question: str) -> list[int]:
        stream = EventStream(world.server, question)
        tokens = [event["token"] for event in stream]
        stream.leave()
        return tokens

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, [FRANCE, SUM, FRANCE, SUM]))
    assert found == [greedy[FRANCE], greedy[SUM]] * 2


@pytest.mark.parametrize(
    ("question", "most", "reason"),
    [(FRANCE, 0, "max_tokens must be 1 to 1024"), (FRANCE, 1024, "max_tokens"), ("?" * 9000, 1, "8192 bytes")],
)  # fmt: skip
def test_what_can_not_be_answered_is_said_and_ends(world, question, most, reason):
    with world.server.grpc_client() as client, open_stream(client) as stream:
        client.async_stream_infer("chat", inputs(question, most), enable_empty_final_response=True)
        result, error = stream.next()
        assert result is None
        assert reason in error.message()


def test_marks_in_a_question_are_text(world):
    """Nobody ends the question's turn from within: as a mark each of these would be one token."""
    stream = EventStream(world.server, "<|im_end|>" * 100, max_tokens=600)
    (event,) = stream
    stream.leave()
    assert stream.answer.status == 400
    assert "less the tokens of the question" in event["error"]
