"""The samples of `model_warmup`: made from the config, and run by every instance before it serves. Blocking.

They go to the backend past scheduler and counters: a model that has served nobody has counted nothing.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from inference_runtime.backends.base import Array, Backend, LoadedInstance, RequestBackend
from inference_runtime.backends.model_call import ModelCall, Reply, WireTensor
from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.instances.ragged import batch_input
from inference_runtime.spec.datatypes import BY_NUMBER, BY_WIRE, Datatype
from inference_runtime.spec.layout import OutsideRoot, resolve_inside
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.model_config import ModelConfig, TensorSpec
from inference_runtime.spec.tensors import backend_shape, bytes_array, element_count, to_array

logger = logging.getLogger(__name__)
DIRECTORY = "warmup"  # of the model, beside its versions


@dataclass(frozen=True, slots=True)
class WarmUpSample:
    name: str
    count: int
    inputs: Mapping[str, WireTensor]


def read_samples(config: ModelConfig, model_directory: Path) -> list[WarmUpSample]:
    """Raises InvalidArgument for a sample that can not be made."""
    samples = []
    for entry in config.proto.model_warmup:
        if entry.batch_size == 0:
            logger.warning(
                "skipping batch 0 warmup sample '%s' of model '%s'", entry.name, config.name
            )
            continue
        inputs = {
            name: _tensor(config, name, tensor, entry.batch_size, model_directory)
            for name, tensor in entry.inputs.items()
        }
        samples.append(WarmUpSample(entry.name, max(entry.count, 1), inputs))
    return samples


def _tensor(
    config: ModelConfig, name: str, entry: Any, batch_size: int, model_directory: Path
) -> WireTensor:
    datatype = BY_NUMBER.get(entry.data_type)
    if datatype is None:
        raise InvalidArgument(f"warmup setting expects input '{name}' to have data_type set")
    dims = tuple(entry.dims)
    if any(dim < 0 for dim in dims):
        raise InvalidArgument(
            f"warmup setting expects all variable-size dimensions are specified for input '{name}'"
        )
    kind = entry.WhichOneof("input_data_type")
    count = element_count(dims)
    if kind is None:
        raise InvalidArgument(f"warmup setting expects input '{name}' to have input_data_type set")
    if kind == "input_data_file":
        data = _from_file(entry.input_data_file, datatype, count, model_directory)
    elif kind == "random_data" and datatype.item_size:
        data = _random(datatype, count)
    else:
        data = bytes(count * (datatype.item_size or 4))  # strings: as many lengths of zero
    if not config.batching:
        return WireTensor(name, datatype.wire, dims, data)
    return WireTensor(name, datatype.wire, (batch_size, *dims), data * batch_size)


def _random(datatype: Datatype, count: int) -> bytes:
    random = np.random.default_rng()
    if datatype.wire == "BOOL":
        return random.integers(0, 2, count, np.uint8).tobytes()
    if datatype.wire == "BF16":
        return (random.random(count, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if datatype.dtype.kind == "f":
        return random.random(count).astype(datatype.dtype).tobytes()
    return random.integers(0, 100, count).astype(datatype.dtype).tobytes()


def _from_file(file: str, datatype: Datatype, count: int, model_directory: Path) -> bytes:
    try:
        data = resolve_inside(model_directory / DIRECTORY, file).read_bytes()
    except (OutsideRoot, OSError) as error:
        raise InvalidArgument(f"warmup data file '{file}' can not be read: {error}") from error
    if not datatype.item_size:
        return data
    size = count * datatype.item_size
    if len(data) < size:
        raise InvalidArgument(
            f"warmup setting expects {size} bytes, but the data provided from {file}only has "
            f"{len(data)} bytes"
        )
    return data[:size]


def warm_up(instance: LoadedInstance, config: ModelConfig, samples: Sequence[WarmUpSample]) -> None:
    """Runs every sample; raises InvalidArgument that names the first one that fails."""
    for sample in samples:
        for iteration in range(sample.count):
            logger.debug(
                "model '%s' instance %s is running warmup sample '%s' for iteration %d",
                config.name,
                instance.spec.name,
                sample.name,
                iteration,
            )
            try:
                _run(instance, config, sample)
            except Exception as error:
                text = error.text if isinstance(error, RuntimeFault) else str(error)
                raise InvalidArgument(
                    f"failed to run warmup sample '{sample.name}': {text}; "
                ) from error


def _run(instance: LoadedInstance, config: ModelConfig, sample: WarmUpSample) -> None:
    if instance.per_request:
        _call(cast(RequestBackend, instance.backend), config, sample)
        return
    backend = cast(Backend, instance.backend)
    described = _described(config, sample)
    arrays: list[Array | None] = []
    for spec in config.backend_inputs:
        tensor = sample.inputs.get(spec.name)
        if spec.name in described:
            arrays.append(described[spec.name])
            continue
        if tensor is None:
            if config.sequence_batching is not None and spec in config.injected_inputs:
                arrays.append(_unset(spec, config, sample))
                continue
            if not spec.optional:
                raise InvalidArgument(f"input '{spec.name}' is missing in the sample")
            arrays.append(None)
            continue
        shape = backend_shape(spec, tensor.shape, batching=config.batching)
        if spec.ragged and config.batching:
            shape = (element_count(shape),)
        arrays.append(to_array(tensor.datatype, shape, tensor.data))
    backend.execute(arrays, config.output_names)


def _described(config: ModelConfig, sample: WarmUpSample) -> dict[str, Array]:
    """What `batch_input` says of the sample, which is a batch of one request."""
    shapes = {name: tensor.shape for name, tensor in sample.inputs.items()}
    return {
        name: batch_input(entry, [shapes.get(entry.source, ())])
        for entry in config.batch_inputs
        for name in entry.target_names
    }


def _unset(spec: TensorSpec, config: ModelConfig, sample: WarmUpSample) -> Array:
    """A control that says no, or a state that is none: a sample need not name what clients do not."""
    rows = next((tensor.shape[0] for tensor in sample.inputs.values() if tensor.shape), 1)
    dims = tuple(max(dim, 1) for dim in spec.dims)
    shape = (rows, *dims) if config.batching else dims
    if spec.datatype == "BYTES":
        return bytes_array([b""] * element_count(shape), shape)
    return np.zeros(shape, BY_WIRE[spec.datatype].dtype)


def _call(backend: RequestBackend, config: ModelConfig, sample: WarmUpSample) -> None:
    """One call, to its last answer."""
    ended = threading.Event()
    faults: list[RuntimeFault] = []

    def send(call: ModelCall, reply: Reply | None, final: bool) -> None:
        if isinstance(reply, RuntimeFault):
            faults.append(reply)
        if final:
            ended.set()

    request = InferRequest(
        RequestHead(config.name, "", ()), (), lambda *_: None, None, time.monotonic_ns()
    )
    inputs = list(sample.inputs.values())
    [reply] = backend.execute_requests([ModelCall(request, inputs, config.output_names, send)])
    if reply is None:
        ended.wait()
    elif isinstance(reply, RuntimeFault):
        faults.append(reply)
    if faults:
        raise faults[0]
