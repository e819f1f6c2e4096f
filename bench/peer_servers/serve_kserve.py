"""The kserve SDK with ONNX Runtime in its `predict`. Runs in kserve's own venv, and imports nothing of ours."""

import sys
from pathlib import Path
from typing import Any

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer

_WIRE = {"tensor(int32)": "INT32", "tensor(float)": "FP32"}


class OnnxModel(Model):  # type: ignore[misc]  # kserve is installed in its own venv only
    def __init__(self, file: Path) -> None:
        super().__init__(file.stem)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self._outputs = [(port.name, _WIRE[port.type]) for port in self._session.get_outputs()]
        self.ready = True

    def load(self) -> bool:
        self.ready = True
        return True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        arrays = self._session.run(None, {entry.name: entry.as_numpy() for entry in payload.inputs})
        outputs = []
        for (name, datatype), array in zip(self._outputs, arrays, strict=True):
            output = InferOutput(name, list(array.shape), datatype)
            output.set_data_from_numpy(array, binary_data=True)
            outputs.append(output)
        return InferResponse(
            response_id=payload.id or "", model_name=self.name, infer_outputs=outputs
        )


if __name__ == "__main__":
    _folder, http_port, grpc_port, _metrics_port, *files = sys.argv[1:]
    ModelServer(
        http_port=int(http_port), grpc_port=int(grpc_port), workers=1,
        enable_latency_logging=False, enable_grpc=True,
    ).start([OnnxModel(Path(file)) for file in files])  # fmt: skip
