"""Decoupled text: PROMPT comes back as TEXT; with STREAM in as many responses as REPETITION says (3), else in one.

DELAY seconds pass before each response; the word "error" in the prompt makes it one, the words "late error" the second.
"""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.answer(request, request.get_response_sender())

    def answer(self, request, sender):
        prompt = value(request, "PROMPT", b"")
        stream = bool(value(request, "STREAM", False))
        count = int(value(request, "REPETITION", 3)) if stream else 1
        for number in range(count):
            time.sleep(float(value(request, "DELAY", 0.0)))
            if b"error" in prompt and (number or b"late" not in prompt):
                error = pb_utils.TritonError(f"the prompt says so: {prompt.decode()}")
                sender.send(pb_utils.InferenceResponse(error=error))
                break
            text = pb_utils.Tensor("TEXT", np.array([prompt], dtype=np.object_))
            sender.send(pb_utils.InferenceResponse([text]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def value(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().ravel()[0]
