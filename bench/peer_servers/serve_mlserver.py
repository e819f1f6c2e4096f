"""MLServer with adaptive batching and ONNX Runtime. Runs in MLServer's own venv, and imports nothing of ours."""

import asyncio
import sys
from pathlib import Path

import onnxruntime
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

_KINDS = {"tensor(int32)": "int32", "tensor(float)": "float32"}


class OnnxModel(MLModel):  # type: ignore[misc]  # mlserver is installed in its own venv only
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            self.settings.parameters.uri, options, providers=["CPUExecutionProvider"]
        )
        self._kinds = {port.name: _KINDS[port.type] for port in self._session.get_inputs()}
        self._names = [port.name for port in self._session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feed = {
            entry.name: NumpyCodec.decode_input(entry).astype(self._kinds[entry.name], copy=False)
            for entry in payload.inputs
        }
        arrays = self._session.run(self._names, feed)
        outputs = [
            NumpyCodec.encode_output(*pair) for pair in zip(self._names, arrays, strict=True)
        ]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)


async def main() -> None:
    _folder, http_port, grpc_port, metrics_port, *files = sys.argv[1:]
    server = MLServer(
        Settings(
            host="127.0.0.1", http_port=int(http_port), grpc_port=int(grpc_port),
            metrics_port=int(metrics_port), parallel_workers=0,
        )
    )  # fmt: skip
    await server.start(
        [
            ModelSettings(
                name=Path(file).stem, implementation=OnnxModel, max_batch_size=32,
                max_batch_time=0.001, parameters={"uri": file},
            )
            for file in files
        ]
    )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
