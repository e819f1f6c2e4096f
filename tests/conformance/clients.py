"""The four stock clients behind one interface, so that one test is asked of all of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpcaio
import tritonclient.http as httpclient
import tritonclient.http.aio as httpaio
from tritonclient.utils import np_to_triton_dtype

from tests.conformance.runtime_process import RuntimeProcess

KINDS = ("http", "grpc", "http-aio", "grpc-aio")


class Client:
    """Calls by name, whatever the transport and whether it is awaited."""

    def __init__(self, server: RuntimeProcess, kind: str) -> None:
        self.kind = kind
        self.over_http = kind.startswith("http")
        self._module = httpclient if self.over_http else grpcclient
        self._loop = asyncio.new_event_loop() if kind.endswith("aio") else None
        address = server.http if self.over_http else server.grpc
        if self._loop is None:
            self._client = self._module.InferenceServerClient(address)
        else:
            factory = httpaio if self.over_http else grpcaio
            self._client = self._run(self._make(factory, address))

    async def _make(self, factory, address):
        return factory.InferenceServerClient(address)

    def _run(self, awaitable):
        assert self._loop is not None
        return self._loop.run_until_complete(awaitable)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if self._loop is None:
            return method
        return lambda *args, **more: self._run(method(*args, **more))

    def close(self) -> None:
        if self._loop is None:
            self._client.close()
        else:
            self._run(self._client.close())
            self._loop.close()

    def ask(
        self,
        model: str,
        inputs: dict[str, np.ndarray],
        outputs: Sequence[str] = (),
        datatype: str = "",
        **more: Any,
    ):
        """The result object of the client."""
        asked = [self._module.InferRequestedOutput(name) for name in outputs]
        return self.infer(
            model,
            [self.tensor(name, array, datatype) for name, array in inputs.items()],
            outputs=asked or None,
            **more,
        )

    def tensor(self, name: str, array: np.ndarray, datatype: str = ""):
        wire = datatype or np_to_triton_dtype(array.dtype)
        tensor = self._module.InferInput(name, list(array.shape), wire)
        tensor.set_data_from_numpy(array)
        return tensor

    def input(self, name: str, shape: Sequence[int], datatype: str):
        """Without data yet."""
        return self._module.InferInput(name, list(shape), datatype)

    def requested(self, name: str, **more: Any):
        return self._module.InferRequestedOutput(name, **more)

    def names(self, metadata: Any) -> Any:
        """Metadata, config or index as plain JSON, whatever the client gives."""
        if self.over_http:
            return metadata
        from google.protobuf import json_format

        return json_format.MessageToDict(metadata, preserving_proto_field_name=True)


def constant(client: Client, model: str, version: str = "") -> float:
    """What a model of `add_constant` adds: tests tell versions by it."""
    zeros = {"INPUT0": np.zeros((1, 4), np.float32)}
    result = client.ask(model, zeros, model_version=version)
    return float(result.as_numpy("OUTPUT0")[0, 0])
