"""One prepared request, sent again and again: the client side of a benchmark.

These are tritonclient's own asynchronous clients, so what is measured is what users see. They cost a
few hundred microseconds of CPU a call; whoever reports figures reports the client's CPU beside them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.utils import InferenceServerException

from webapp.runtime_client.address import parse_address
from webapp.runtime_client.errors import RuntimeRefused
from webapp.runtime_client.types import Tensor


class LoadClient(Protocol):
    async def call(self) -> None:
        """One inference. Raises RuntimeRefused with the server's or the connection's words."""

    async def close(self) -> None: ...


class _TritonLoadClient:
    def __init__(self, client: Any, model: str, version: int, inputs: list[Any]) -> None:
        self._client = client
        self._model = model
        self._version = str(version)
        self._inputs = inputs

    async def call(self) -> None:
        try:
            await self._client.infer(self._model, self._inputs, model_version=self._version)
        except (InferenceServerException, OSError) as problem:
            raise RuntimeRefused(str(problem), 503) from None

    async def close(self) -> None:
        await self._client.close()


def open_load_client(
    protocol: str, address: str, *, model: str, version: int, tensors: Sequence[Tensor], limit: int
) -> LoadClient:
    """`protocol` is "grpc" or "http"; `limit` bounds the HTTP connections. Call inside a loop."""
    parse_address(address)
    if protocol == "grpc":
        module: Any = triton_grpc
        client: Any = triton_grpc_aio.InferenceServerClient(address)
    else:
        module = triton_http
        client = triton_http_aio.InferenceServerClient(address, conn_limit=limit)
    inputs = []
    for tensor in tensors:
        entry = module.InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
        entry.set_data_from_numpy(tensor.array)
        inputs.append(entry)
    return _TritonLoadClient(client, model, version, inputs)
