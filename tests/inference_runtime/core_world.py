"""A runtime core over a repository in a temporary directory, without sockets: ask it, look at it, end it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from inference_runtime.backends.base import BackendServices
from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.lifecycle import ModelLifecycle
from inference_runtime.lifecycle.loader import VersionLoader
from inference_runtime.lifecycle.poller import RepositoryPoller
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.lifecycle.start_up import ModelControlMode, load_at_start
from inference_runtime.lifecycle.version_config import BackendSettings
from inference_runtime.lifecycle.wanted_models import WantedModels
from inference_runtime.repository.repository import ModelRepository
from inference_runtime.repository.store import DirectoryStore, RepositoryStore
from inference_runtime.routing.core import CoreParts, RuntimeCore
from inference_runtime.routing.introspection import repository_index
from inference_runtime.routing.slots import Slots
from inference_runtime.routing.traffic_store import TrafficStore
from inference_runtime.scheduling.scheduler import SharedParts
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    RequestedOutput,
    RequestHead,
    TensorHead,
)
from inference_runtime.spec.tensors import join_bytes, to_array
from inference_runtime.telemetry.telemetry import Telemetry

WAIT_SECONDS = 20


@dataclass
class CoreWorld:
    path: Path
    core: RuntimeCore
    registry: ModelRegistry
    lifecycle: ModelLifecycle
    loader: VersionLoader
    repository: ModelRepository
    wanted: WantedModels
    pending: list[InferRequest] = field(default_factory=list)

    async def load(self, name: str, **parameters: Any) -> None:
        await self.core.load(name, parameters)

    async def unload(self, name: str) -> None:
        await self.core.unload(name, unload_dependents=False)

    def submit(self, head: RequestHead, data: Sequence[bytes], **more: Any):
        """The request, and a future of its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request = InferRequest(
            head,
            data,
            lambda _, answer: future.set_result(answer),
            None,
            time.monotonic_ns(),
            more.pop("id_", ""),
        )
        for key, value in more.items():
            setattr(request, key, value)
        self.core.infer(request)
        return request, future

    async def ask(self, model: str, version: str = "", **inputs: Any) -> dict[str, Any]:
        """The outputs by name; raises the fault the runtime answered with."""
        answer = await self.answer(head_of(model, inputs, version), data_of(inputs))
        if isinstance(answer, RuntimeFault):
            raise answer
        return arrays_of(answer)

    async def answer(self, head: RequestHead, data: Sequence[bytes], **more: Any) -> Answer:
        _, future = self.submit(head, data, **more)
        async with asyncio.timeout(WAIT_SECONDS):
            answer: Answer = await future
            return answer

    def states(self, name: str) -> dict[str, tuple[str, str]]:
        return {
            entry.version: (entry.state, entry.reason)
            for entry in repository_index(self.registry, self.repository.names(), ready_only=False)
            if entry.name == name
        }

    def poller(self) -> RepositoryPoller:
        return RepositoryPoller(
            repository=self.repository,
            registry=self.registry,
            lifecycle=self.lifecycle,
            loader=self.loader,
            interval_seconds=3600,
        )


@asynccontextmanager
async def core_world(
    path: Path,
    *,
    state: Path | None = None,
    mode=ModelControlMode.EXPLICIT,
    roots: Sequence[Path] = (),
    settings: BackendSettings | None = None,
    config_name="",
    strict_readiness=True,
    started=True,
    shared: SharedParts | None = None,
    stores: Sequence[RepositoryStore] = (),
    namespacing=False,
) -> AsyncIterator[CoreWorld]:
    settings = settings or BackendSettings()
    telemetry = Telemetry()
    registry = ModelRegistry(namespacing=namespacing)
    repository = ModelRepository(
        stores or [DirectoryStore(root) for root in roots or [path]],
        config_name=config_name,
        require_complete=not settings.auto_complete,
        namespacing=namespacing,
    )
    inference = InferencePort()
    loader = VersionLoader(
        stats=telemetry.registry,
        settings=settings,
        services=BackendServices(asyncio.get_running_loop(), inference),
        shared=shared,
    )
    wanted = WantedModels(state)
    lifecycle = ModelLifecycle(
        repository=repository, registry=registry, loader=loader, wanted=wanted
    )
    core = RuntimeCore(
        CoreParts(
            registry=registry,
            lifecycle=lifecycle,
            traffic=TrafficStore(state),
            telemetry=telemetry,
            slots=Slots(shared.limiter if shared is not None else None),
            mode=mode,
            strict_readiness=strict_readiness,
        )
    )
    inference.bind(core.infer, core.cancel)
    core.restore_traffic()
    if started:
        await load_at_start(lifecycle, {}, wanted.restore())
        core.started()
    try:
        yield CoreWorld(path, core, registry, lifecycle, loader, repository, wanted)
    finally:
        async with asyncio.timeout(WAIT_SECONDS):
            await lifecycle.shut_down()
        loader.threads.close()
        wanted.close()


async def eventually(condition, what="the condition") -> None:
    """Waits until `condition()` holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.005)


_WIRE = {
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "object": "BYTES",
}


def head_of(
    model: str,
    inputs: dict[str, np.ndarray],
    version: str = "",
    outputs: Sequence[str] = (),
    datatypes: dict[str, str] | None = None,
) -> RequestHead:
    return RequestHead(
        model,
        version,
        tuple(
            TensorHead(name, (datatypes or {}).get(name) or _wire(array), array.shape)
            for name, array in inputs.items()
        ),
        tuple(RequestedOutput(name) for name in outputs),
    )


def _wire(array: np.ndarray) -> str:
    name = str(array.dtype)
    return _WIRE.get(name, name.upper())


def data_of(inputs: dict[str, np.ndarray]) -> list[bytes]:
    return [
        join_bytes(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        for array in inputs.values()
    ]


def arrays_of(answer: InferResponse) -> dict[str, Any]:
    return {
        output.name: to_array(output.datatype, output.shape, data)
        for output, data in zip(answer.head.outputs, answer.data, strict=True)
    }
