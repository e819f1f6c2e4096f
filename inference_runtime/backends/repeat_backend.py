"""The decoupled echo: one response per element of IN. What streaming is tested and measured with.

Inputs IN (INT32 [-1]), DELAY (UINT32 [-1], milliseconds before each response) and WAIT (UINT32 [1],
milliseconds that the execution itself takes); outputs OUT (INT32 [1]) and IDX (UINT32 [1]).
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from inference_runtime.backends.base import (
    Array,
    ArtifactDescription,
    BackendServices,
    ModelArtifact,
)
from inference_runtime.backends.model_call import ModelCall, Reply, WireTensor
from inference_runtime.errors import Internal, InvalidArgument
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig
from inference_runtime.spec.tensors import to_array

_THREADS = 32  # requests of one instance that are answered side by side
_PORTS = {"IN": "INT32", "DELAY": "UINT32", "WAIT": "UINT32", "OUT": "INT32", "IDX": "UINT32"}


class RepeatBackend:
    utf8_strings = False
    overlapping = False
    per_request = True

    def __init__(self, options: Mapping[str, str], services: BackendServices | None = None) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._batching = False

    @staticmethod
    def gpu_support() -> bool:
        return False

    @staticmethod
    def describe(
        artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription | None:
        return None

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        if instance.gpu is not None:
            raise Internal("GPU instances not supported")
        if not config.decoupled:
            raise InvalidArgument(
                f"model '{config.name}' of the repeat backend must be decoupled: set "
                "model_transaction_policy { decoupled: True }"
            )
        for spec in (*config.inputs, *config.outputs):
            if _PORTS.get(spec.name) != spec.datatype:
                raise InvalidArgument(
                    f"the repeat backend has no input or output '{spec.name}' of type {spec.datatype}"
                )
        self._batching = config.batching
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"repeat-{instance.name}")

    def execute_requests(self, calls: Sequence[ModelCall]) -> Sequence[Reply | None]:
        assert self._pool is not None
        wait_ms = 0
        for call in calls:
            given = {
                tensor.name: to_array(tensor.datatype, tensor.shape, tensor.data).ravel()
                for tensor in call.inputs
            }
            if given["WAIT"].size:
                wait_ms = max(wait_ms, int(given["WAIT"][0]))
            self._pool.submit(self._repeat, call, given)
        time.sleep(wait_ms / 1000)
        return [None] * len(calls)

    def _repeat(self, call: ModelCall, given: Mapping[str, Array]) -> None:
        values, delays = given["IN"], given["DELAY"]
        if len(values) != len(delays):
            call.send(InvalidArgument("expected IN and DELAY shape to match"), final=True)
            return
        for index, (value, delay_ms) in enumerate(zip(values, delays, strict=True)):
            time.sleep(int(delay_ms) / 1000)
            call.wait()
            if call.cancelled:
                break
            call.send([self._tensor("OUT", value), self._tensor("IDX", index)], final=False)
        call.send(None, final=True)

    def _tensor(self, name: str, value: Any) -> WireTensor:
        datatype = _PORTS[name]
        data = np.array([value], np.int32 if datatype == "INT32" else np.uint32).tobytes()
        return WireTensor(name, datatype, (1, 1) if self._batching else (1,), data)

    def unload(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
