"""Decoupled: one response per element of IN, each after its DELAY; OUT is the element, IDX its place."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(
                target=self.repeat,
                args=(request.get_response_sender(), *self.arrays(request)),
                daemon=True,
            ).start()

    def arrays(self, request):
        return [
            pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel().copy()
            for name in ("IN", "DELAY")
        ]

    def repeat(self, sender, values, delays):
        for index, (value, delay) in enumerate(zip(values, delays, strict=True)):
            time.sleep(int(delay) / 1000)
            outputs = [
                pb_utils.Tensor("OUT", np.array([value], np.int32)),
                pb_utils.Tensor("IDX", np.array([index], np.uint32)),
            ]
            sender.send(pb_utils.InferenceResponse(outputs))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
