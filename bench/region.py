"""An item's inputs in shared memory, registered with the server that is measured."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import np_to_triton_dtype

from bench.served import Served
from bench.subjects import Subject


@dataclass(frozen=True)
class ItemRegion:
    name: str
    offsets: Mapping[str, int]


@contextmanager
def item_region(served: Served, subject: Subject) -> Iterator[ItemRegion]:
    """One real answer is judged before anything is measured."""
    arrays = {name: np.ascontiguousarray(array) for name, array in subject.item.items()}
    offsets: dict[str, int] = {}
    size = 0
    for name, array in arrays.items():
        offsets[name] = size
        size += array.nbytes
    region = ItemRegion(f"bench-{uuid.uuid4().hex}", offsets)
    memory = SharedMemory(create=True, size=size)
    client = triton.InferenceServerClient(served.grpc_address)
    try:
        whole = np.frombuffer(memory.buf, np.uint8)  # type: ignore[arg-type]  # open: it has a buffer
        for name, array in arrays.items():
            start = offsets[name]
            whole[start : start + array.nbytes] = array.view(np.uint8).ravel()
        del whole
        client.register_system_shared_memory(region.name, memory.name, size)
        _judge(client, subject, region)
        yield region
        client.unregister_system_shared_memory(region.name)
    finally:
        client.close()
        memory.close()
        memory.unlink()


def _judge(client: triton.InferenceServerClient, subject: Subject, region: ItemRegion) -> None:
    inputs = []
    for name, array in subject.item.items():
        entry = triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        entry.set_shared_memory(region.name, array.nbytes, offset=region.offsets[name])
        inputs.append(entry)
    result = client.infer(subject.name, inputs)
    outputs = result.get_response().outputs
    subject.check({output.name: result.as_numpy(output.name) for output in outputs})
