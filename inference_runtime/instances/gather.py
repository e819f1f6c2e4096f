"""From the bytes of a batch's requests to the arrays a backend takes: one join per input, no copy of one."""

import numpy as np

from inference_runtime.backends.base import Array
from inference_runtime.instances.batch import Batch
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes
from inference_runtime.spec.model_config import ModelConfig, TensorSpec
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.tensors import backend_shape, to_array

Shape = tuple[int, ...]


class _Port:
    """An input, with what can be known before a request comes."""

    __slots__ = ("_batching", "_dtype", "_spec")

    def __init__(self, spec: TensorSpec, *, batching: bool) -> None:
        self._spec = spec
        self._batching = batching
        # Most inputs are nothing but a view of the bytes; these cost no more than that.
        plain = spec.reshape is None and spec.datatype not in ("BYTES", "BOOL")
        self._dtype = BY_WIRE[spec.datatype].dtype if plain else None

    def array(self, shape: Shape, data: Bytes) -> Array:
        if self._dtype is None:
            wanted = backend_shape(self._spec, shape, batching=self._batching)
            array = to_array(self._spec.datatype, wanted, data)
        else:
            array = np.frombuffer(data, self._dtype).reshape(shape)
        # A slice of a request body may start at any byte, and backends read whole words.
        return array if type(data) is bytes or array.flags.aligned else array.copy()


class Gatherer:
    """One array per config input, in its order; None where a batch's requests leave an optional one out."""

    def __init__(self, config: ModelConfig) -> None:
        self._ports = tuple(_Port(spec, batching=config.batching) for spec in config.inputs)

    def gather(self, batch: Batch) -> list[Array | None]:
        first: RequestPlan = batch.requests[0].plan
        requests = batch.requests
        alone = len(requests) == 1
        arrays: list[Array | None] = []
        for index, (port, source, shape) in enumerate(
            zip(self._ports, first.sources, first.shapes, strict=True)
        ):
            if source < 0:
                arrays.append(None)
            elif alone:
                arrays.append(port.array(shape, requests[0].data[source]))
            elif batch.uniform:
                joined = b"".join([request.data[source] for request in requests])
                arrays.append(port.array((batch.rows, *shape[1:]), joined))
            else:
                arrays.append(port.array((batch.rows, *shape[1:]), self._joined(batch, index)))
        return arrays

    @staticmethod
    def _joined(batch: Batch, index: int) -> bytes:
        return b"".join([request.data[request.plan.sources[index]] for request in batch.requests])
