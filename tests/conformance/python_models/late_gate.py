"""OUTPUT0 is INPUT0, by a response sender: at once, or, of a number below 0, when a file `open` is beside the config.

`ran` gets a line for each answer that was sent.
"""

import threading
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.directory = Path(args["model_repository"])

    def execute(self, requests):
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            given = request.get_response_sender(), pb_utils.Tensor("OUTPUT0", value)
            if (value < 0).any():
                threading.Thread(target=self.answer_when_open, args=given).start()
            else:
                self.answer(*given)
        return [None for _ in requests]

    def answer_when_open(self, sender, output):
        while not (self.directory / "open").exists():
            time.sleep(0.005)
        self.answer(sender, output)

    def answer(self, sender, output):
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        sender.send(pb_utils.InferenceResponse([output]), flags=final)
        with (self.directory / "ran").open("a") as file:
            file.write("1\n")
