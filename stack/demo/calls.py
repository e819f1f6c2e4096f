"""Inference calls of the demo, by the stock Triton clients."""

import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from numpy.typing import NDArray
from tritonclient.utils import np_to_triton_dtype

Tensors = Mapping[str, NDArray[Any]]


class Caller:
    """One client of each protocol, asked the same question."""

    def __init__(self, http_address: str, grpc_address: str) -> None:
        self._limits: dict[str, int] = {}
        self._clients: dict[str, tuple[Any, Any]] = {
            "HTTP": (triton_http, triton_http.InferenceServerClient(http_address)),
            "gRPC": (triton_grpc, triton_grpc.InferenceServerClient(grpc_address)),
        }

    def ask(self, protocol: str, model: str, tensors: Tensors) -> tuple[Tensors, float]:
        """The named outputs, and how long the answers took in milliseconds.

        More rows than the model takes at once go in several requests.
        """
        limit = self._batch_limit(model)
        rows = len(next(iter(tensors.values())))
        parts, elapsed_ms = [], 0.0
        for start in range(0, rows, limit):
            piece = {name: array[start : start + limit] for name, array in tensors.items()}
            answer, took_ms = self._ask_once(protocol, model, piece)
            parts.append(answer)
            elapsed_ms += took_ms
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return joined, elapsed_ms

    def _batch_limit(self, model: str) -> int:
        if model not in self._limits:
            _module, client = self._clients["gRPC"]
            config = client.get_model_config(model).config
            self._limits[model] = config.max_batch_size or sys.maxsize
        return self._limits[model]

    def _ask_once(self, protocol: str, model: str, tensors: Tensors) -> tuple[Tensors, float]:
        module, client = self._clients[protocol]
        inputs = []
        for name, array in tensors.items():
            entry = module.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
            entry.set_data_from_numpy(array)
            inputs.append(entry)
        started = time.perf_counter()
        result = client.infer(model, inputs)
        elapsed_ms = (time.perf_counter() - started) * 1000
        return _Answer(result), elapsed_ms

    def close(self) -> None:
        for _module, client in self._clients.values():
            client.close()


class _Answer(Mapping[str, NDArray[Any]]):
    def __init__(self, result: Any) -> None:
        self._result = result

    def __getitem__(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] | None = self._result.as_numpy(name)
        if array is None:
            raise KeyError(name)
        return np.asarray(array)

    def __iter__(self) -> Any:
        response = self._result.get_response()
        outputs = response["outputs"] if isinstance(response, dict) else response.outputs
        return iter([o["name"] if isinstance(o, dict) else o.name for o in outputs])

    def __len__(self) -> int:
        return len(list(iter(self)))
