"""From the bytes of a batch's requests to the arrays a backend takes: one join per input, no copy of one."""

from inference_runtime.backends.base import Array
from inference_runtime.instances.batch import Batch
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.tensors import backend_shape, to_array


def gather(config: ModelConfig, batch: Batch) -> list[Array | None]:
    """One array per config input, in its order; None where the batch's requests leave an optional one out."""
    if len(batch.requests) == 1:
        return _gather_one(config, batch)
    first: RequestPlan = batch.requests[0].plan
    arrays: list[Array | None] = []
    for index, spec in enumerate(config.inputs):
        source = first.sources[index]
        if source < 0:
            arrays.append(None)
            continue
        if batch.uniform:
            parts = [request.data[source] for request in batch.requests]
        else:
            parts = [request.data[request.plan.sources[index]] for request in batch.requests]
        shape = (batch.rows, *first.shapes[index][1:])
        wanted = backend_shape(spec, shape, batching=True)
        arrays.append(to_array(spec.datatype, wanted, b"".join(parts)))
    return arrays


def _gather_one(config: ModelConfig, batch: Batch) -> list[Array | None]:
    request = batch.requests[0]
    plan: RequestPlan = request.plan
    arrays: list[Array | None] = []
    for spec, source, shape in zip(config.inputs, plan.sources, plan.shapes, strict=True):
        if source < 0:
            arrays.append(None)
            continue
        wanted = backend_shape(spec, shape, batching=config.batching)
        array = to_array(spec.datatype, wanted, request.data[source])
        # A slice of a request body may start at any byte, and backends read whole words.
        arrays.append(array if array.flags.aligned else array.copy())
    return arrays
