"""Runs the Python text of CODE inside `execute`; RESULT is what it leaves in `result`, as JSON."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        return [self.run(request) for request in requests]

    def run(self, request):
        code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().ravel()[0]
        scope = {"pb_utils": pb_utils, "np": np, "json": json, "request": request, "model": self}
        exec(code.decode(), scope)
        text = json.dumps(scope["result"])
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("RESULT", np.array([text], dtype=np.object_))]
        )
