"""Output i is input i, of whatever type and shape the config says; request parameters come back, too."""

import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.pairs = [
            (source["name"], target["name"])
            for source, target in zip(config["input"], config["output"], strict=True)
        ]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        outputs = []
        for source, target in self.pairs:
            tensor = pb_utils.get_input_tensor_by_name(request, source)
            outputs.append(pb_utils.Tensor(target, tensor.as_numpy()))
        parameters = {
            key: value if isinstance(value, bool | int | str) else str(value)
            for key, value in json.loads(request.parameters()).items()
        }
        return pb_utils.InferenceResponse(outputs, parameters=parameters or None)
