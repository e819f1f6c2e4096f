"""From INPUT down to 0, one response a step; until then it wants its request again."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            self.step(request, request.get_response_sender())

    def step(self, request, sender):
        id_ = self.value(request, "CORRID")
        left = self.value(request, "INPUT") if self.value(request, "START") else self.left[id_]
        left -= 1
        self.left[id_] = left
        tensor = pb_utils.Tensor("OUTPUT", np.array([[left]], dtype=np.int32))
        response = pb_utils.InferenceResponse([tensor])
        if left > 0:
            sender.send(response)
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        else:
            del self.left[id_]
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def value(self, request, name):
        """Without sequences every request is a start, and has no id."""
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return name == "START" if tensor is None else tensor.as_numpy().ravel()[0]
