"""Sums that the model keeps itself, by correlation id: what controls are for without implicit state."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = self.value(request, "INPUT0")
        if not self.value(request, "READY"):
            return pb_utils.InferenceResponse([self.tensor(-1)])
        id_ = self.value(request, "CORRID")
        assert id_ == request.correlation_id()
        start = bool(request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
        assert start == bool(self.value(request, "START"))
        self.sums[id_] = value + (0 if start else self.sums[id_])
        total = self.sums[id_]
        if self.value(request, "END"):
            del self.sums[id_]
        return pb_utils.InferenceResponse([self.tensor(total)])

    def value(self, request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

    def tensor(self, value):
        return pb_utils.Tensor("OUTPUT0", np.array([[value]], dtype=np.int32))
