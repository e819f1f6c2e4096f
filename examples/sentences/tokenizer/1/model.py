"""Text → token ids, by the `tokenizer.json` beside this file. Needs `tokenizers` in the model's environment.

The sentences of one request are padded to its longest; what is longer than 128 tokens is cut.
"""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

OUTPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class TritonPythonModel:
    def initialize(self, args):
        self.tokenizer = Tokenizer.from_file(str(Path(__file__).parent / "tokenizer.json"))
        self.tokenizer.enable_truncation(128)
        self.tokenizer.enable_padding()

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        elements = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
        try:
            sentences = [element.decode() for element in elements.ravel()]
        except UnicodeDecodeError:
            # One bad request gets an error of its own; the others of the batch are answered.
            error = pb_utils.TritonError("text must be UTF-8", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        encoded = self.tokenizer.encode_batch(sentences)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor(name, np.array([getattr(e, field) for e in encoded], np.int64))
                for name, field in OUTPUTS.items()
            ]
        )
