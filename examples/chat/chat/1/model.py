"""Answers a question token by token: greedy decoding over `smollm2`, which is called once per token.

The cache of the tokens so far (46 kB each) comes back from every call and goes into the next. Needs `tokenizers`
in the model's environment, and `tokenizer.json` beside this file.
"""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

BEFORE = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
END = 2  # <|im_end|>
MOST_TOKENS = 1024  # of question and answer
MOST_BYTES = 8192  # of a question, before anybody counts its tokens
NOTHING_YET = np.zeros((1, 30, 2, 3, 0, 64), np.float32)


class TritonPythonModel:
    def initialize(self, args):
        file = str(Path(__file__).parent / "tokenizer.json")
        self.tokenizer = Tokenizer.from_file(file)
        # In a question the marks of turns are text like any other: nobody can write the system's part.
        self.words = Tokenizer.from_file(file)
        self.words.encode_special_tokens = True

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                self.answer(request, sender)
            except Refused as refused:
                sender.send(pb_utils.InferenceResponse(error=refused.error))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def answer(self, request, sender):
        ids, most = self.read(request)
        text = DecodeStream(skip_special_tokens=True)
        past = NOTHING_YET
        for _ in range(most):
            token, past = step(ids, past)
            if token == END or sender.is_cancelled():
                return
            # A character may take several tokens: the text of the first is empty.
            sender.send(response(token, text.step(self.tokenizer, token) or ""))
            ids = [token]

    def read(self, request):
        """The tokens of the question, and how many the answer may have."""
        question = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0]
        wanted = pb_utils.get_input_tensor_by_name(request, "max_tokens")
        most = 256 if wanted is None else int(wanted.as_numpy()[0])
        if len(question) > MOST_BYTES:
            raise Refused(f"text_input must be at most {MOST_BYTES} bytes")
        ids = [
            *self.tokenizer.encode(BEFORE).ids,
            *self.words.encode(question.decode(errors="replace")).ids,
            *self.tokenizer.encode(AFTER).ids,
        ]
        if not 0 < most <= MOST_TOKENS - len(ids):
            raise Refused(
                f"max_tokens must be 1 to {MOST_TOKENS} less the tokens of the question, {len(ids)}"
            )
        return ids, most


class Refused(Exception):
    def __init__(self, problem):
        super().__init__(problem)
        self.error = (
            problem
            if isinstance(problem, pb_utils.TritonError)
            else pb_utils.TritonError(problem, pb_utils.TritonError.INVALID_ARG)
        )


def step(ids, past):
    """The next token, and the cache with the tokens that led to it."""
    inputs = [
        pb_utils.Tensor("input_ids", np.array([ids], np.int64)),
        pb_utils.Tensor("past", past),
    ]
    answer = pb_utils.InferenceRequest(
        model_name="smollm2", inputs=inputs, requested_output_names=["next_token", "present"]
    ).exec()
    if answer.has_error():
        raise Refused(answer.error())
    token = pb_utils.get_output_tensor_by_name(answer, "next_token").as_numpy()
    return int(token[0, 0]), pb_utils.get_output_tensor_by_name(answer, "present").as_numpy()


def response(token, text):
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", np.array([text.encode()], np.object_)),
            pb_utils.Tensor("token", np.array([token], np.int64)),
        ]
    )
