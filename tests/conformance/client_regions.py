"""Shared memory as clients make it, with the stock client's own library, and gone when a test ends."""

import mmap
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.utils.shared_memory as shm

from tests.conformance.clients import Client
from tests.conformance.repeat_model import write_repeat
from tests.conformance.runtime_process import RuntimeProcess
from tests.onnx_models import add_sub, identity, write_model

PAGE = mmap.PAGESIZE
SHAPE = [1, 16]
SIZE = 64  # bytes of one tensor of the model `simple`
FIRST = np.arange(16, dtype=np.int32).reshape(SHAPE)
SECOND = np.full(SHAPE, 2, np.int32)


@dataclass
class Shared:
    """One object in shared memory and the name of the region it is meant for."""

    name: str
    key: str
    handle: Any

    @property
    def path(self) -> Path:
        return Path("/dev/shm") / self.key.lstrip("/")

    def put(self, *arrays: np.ndarray, offset=0) -> None:
        shm.set_shared_memory_region(self.handle, list(arrays), offset=offset)

    def array(self, dtype=np.int32, shape=(1, 16), offset=0) -> np.ndarray:
        return np.array(shm.get_contents_as_numpy(self.handle, dtype, shape, offset))


@contextmanager
def shared(size=SIZE, name: str | None = None) -> Iterator[Shared]:
    unique = uuid.uuid4().hex
    key = f"/switchyard_{unique}"
    handle = shm.create_shared_memory_region(unique, key, size, create_only=True)
    try:
        yield Shared(name or unique, key, handle)
    finally:
        shm.destroy_shared_memory_region(handle)


@contextmanager
def registered(
    client: Client, size=SIZE, *arrays: np.ndarray, offset=0, name: str | None = None
) -> Iterator[Shared]:
    """`size` bytes from `offset` on, which hold `arrays`; unregistered afterwards."""
    with shared(offset + size, name) as region:
        region.put(*arrays, offset=offset)
        client.register_system_shared_memory(region.name, region.key, size, offset=offset)
        try:
            yield region
        finally:
            client.unregister_system_shared_memory(region.name)


def shared_input(client: Client, name: str, region: str, size=SIZE, offset=0, **more):
    tensor = client.input(name, more.get("shape", SHAPE), more.get("datatype", "INT32"))
    tensor.set_shared_memory(region, size, offset=offset)
    return tensor


def shared_output(client: Client, name: str, region: str, size=SIZE, offset=0):
    output = client.requested(name)
    output.set_shared_memory(region, size, offset=offset)
    return output


def status(client: Client) -> dict[str, dict[str, Any]]:
    """Rows of the system regions by name, whatever the protocol; numbers as numbers."""
    answer = client.names(client.get_system_shared_memory_status())
    rows = answer if isinstance(answer, list) else answer.get("regions", {}).values()
    return {
        row["name"]: {
            "key": row["key"],
            "offset": int(row.get("offset", 0)),
            "byte_size": int(row["byte_size"]),
        }
        for row in rows
    }


def descriptors(server: RuntimeProcess) -> int:
    """How many files the server has open in shared memory."""
    links = Path(f"/proc/{server.process.pid}/fd").iterdir()
    return sum(_target(link).startswith("/dev/shm/switchyard_") for link in links)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def write_region_models(path: Path) -> Path:
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "free", identity("INT32", ("n",)))
    write_model(path, "text", identity("BYTES", ("n",)))
    write_repeat(path)
    slow = path / "slow"
    (slow / "1").mkdir(parents=True)
    (slow / "config.pbtxt").write_text(
        'backend: "identity" max_batch_size: 1\n'
        'input { name: "INPUT0" data_type: TYPE_INT32 dims: [16] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [16] }\n'
        "instance_group { count: 1 kind: KIND_CPU }\n"
        'parameters { key: "execute_delay_ms" value { string_value: "700" } }\n'
    )
    return path


def inflight(server: RuntimeProcess, model: str) -> int:
    body = server.call("GET", "/v2/switchyard/statistics")[1]
    return sum(row["inflight"] for row in body["models"] if row["model"] == model)
