"""The vectors of a sentence's tokens → one vector of length one: the mean of those that are not padding."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        vectors = pb_utils.get_input_tensor_by_name(request, "token_vectors").as_numpy()
        mask = pb_utils.get_input_tensor_by_name(request, "attention_mask").as_numpy()[..., None]
        mean = (vectors * mask).sum(1) / np.maximum(mask.sum(1), 1)
        unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor("embedding", unit.astype(np.float32))])
