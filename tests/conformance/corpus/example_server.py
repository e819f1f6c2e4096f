"""Examples in a repository of their own, loaded and unloaded as a client does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from stack.corpus.examples import lay_out
from stack.corpus.models import Corpus
from tests.conformance.runtime_process import RuntimeProcess


@dataclass
class ExampleServer:
    server: RuntimeProcess
    repository: Path
    corpus: Corpus

    @contextmanager
    def serving(self, example: str) -> Iterator["ExampleServer"]:
        models = lay_out(example, self.corpus, self.repository)
        with self.server.grpc_client() as client:
            for model in models:
                client.load_model(model)
            yield self
            for model in models:
                client.unload_model(model)

    def file(self, *parts: str) -> Path:
        return self.repository.joinpath(*parts)

    def inferences(self, model: str) -> int:
        """So far."""
        status, body = self.server.call("GET", f"/v2/models/{model}/stats")
        assert status == 200, body
        return int(body["model_stats"][0]["inference_count"])


def session(file: Path) -> onnxruntime.InferenceSession:
    """ONNX Runtime itself, with the threads that the server gives it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def strings(*values: str | bytes) -> np.ndarray[Any, Any]:
    return np.array(values, object)
