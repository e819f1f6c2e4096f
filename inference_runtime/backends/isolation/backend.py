"""`ISOLATION: process`: any backend in a process of its own, so that its native code can take nothing with it.

The same process, memory and supervision as for Python models (ADR 0014); the server keeps only arrays.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from inference_runtime.backends.base import (
    Array,
    ArtifactDescription,
    BackendFactory,
    BackendServices,
    ModelArtifact,
    PortDescription,
)
from inference_runtime.backends.isolation.arrays import pack, unpack
from inference_runtime.backends.isolation.faults import fault_from
from inference_runtime.backends.isolation.given import Given
from inference_runtime.backends.python.batch_codec import arena_full
from inference_runtime.backends.python.loaded_process import LoadedProcess
from inference_runtime.backends.python.options import StubOptions, read_options
from inference_runtime.backends.python.stub_process import Launch, StubProcess
from inference_runtime.backends.python.supervised_instance import (
    SupervisedBackend,
    SupervisedInstance,
)
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import ArenaFull, Unpacker
from inference_runtime.backends.python.wire.frames import Buffer, Kind
from inference_runtime.errors import Internal, InvalidArgument
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig

PARAMETER = "ISOLATION"
_MODULE = "inference_runtime.backends.isolation.host"


def asks_for_isolation(proto: Any) -> bool:
    return PARAMETER in proto.parameters and proto.parameters[PARAMETER].string_value == "process"


def isolated(
    proto: Any, factory: BackendFactory, services: BackendServices | None
) -> BackendFactory:
    """The factory to use for a model: one that isolates, where its config asks for it; raises InvalidArgument."""
    text = proto.parameters[PARAMETER].string_value if PARAMETER in proto.parameters else "none"
    if text not in ("none", "process"):
        raise InvalidArgument(
            f"parameter '{PARAMETER}' of model '{proto.name}' must be 'none' or 'process', got '{text}'"
        )
    if text == "none" or proto.backend == "python" or services is None:
        return factory  # Python models are isolated as they are
    if factory.per_request:
        raise InvalidArgument(f"backend '{proto.backend}' can not be isolated")
    return Isolation(proto.backend, factory, services)


class Isolation:
    """A BackendFactory around one whose backends take arrays."""

    overlapping = False
    per_request = False

    def __init__(self, name: str, inner: BackendFactory, services: BackendServices) -> None:
        self.utf8_strings = inner.utf8_strings
        self._name = name
        self._inner = inner
        self._services = services

    def __call__(self, options: Mapping[str, str], services: BackendServices) -> "IsolatedBackend":
        return IsolatedBackend(self._name, options, services)

    def gpu_support(self) -> bool:
        return self._inner.gpu_support()

    def describe(
        self, artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription | None:
        """Asked of a process of its own: reading a file is native code, too."""
        parameters = {key: value.string_value for key, value in config.parameters.items()}
        start = {"backend": self._name, "given": Given(artifact, config, options).text()}
        process = StubProcess(
            _launch(artifact.model_name, read_options(parameters, {}), self._services),
            self._services.loop,
            received=_received,
            exited=lambda _: None,
        )
        try:
            found = process.begin(Kind.COMPLETE_CONFIG, start)["description"]
        finally:
            process.end()
        if found is None:
            return None
        inputs, outputs = (
            tuple(
                PortDescription(name, datatype, None if shape is None else tuple(shape), optional)
                for name, datatype, shape, optional in ports
            )
            for ports in found
        )
        return ArtifactDescription(inputs, outputs)


class IsolatedProcess(LoadedProcess):
    """One that has loaded its model. `execute` by one thread at a time."""

    open_calls = 0  # every answer comes with its execution

    def __init__(
        self,
        launched: Launch,
        services: BackendServices,
        *,
        exited: Callable[["IsolatedProcess"], None],
    ) -> None:
        super().__init__(launched, services, received=_received, exited=lambda _: exited(self))

    def load(self, start: Any) -> None:
        """Raises the fault of the backend; then the process is gone."""
        self._begin(start)

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Array]:
        self.executing = True
        try:
            answer, payload = self.stub.exchange(self._frame(inputs, outputs))
        finally:
            self.executing = False
            self.executions += 1
        channel = self.stub.channel
        channel.outbound.release(answer["free"])
        if "fault" in answer:
            raise fault_from(answer["fault"])
        tensors = Unpacker(payload, channel.inbound)
        try:
            return [unpack(entry, tensors) for entry in answer["outputs"]]
        except Exception as error:
            self.kill()
            raise Internal(f"Stub process '{self._name}' gave an answer that is none.") from error

    def _frame(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Buffer]:
        channel = self.stub.channel
        packer = channel.packer()
        try:
            packed = [None if array is None else pack(array, packer) for array in inputs]
        except ArenaFull as full:
            packer.undo((0, 0))
            raise arena_full(full) from None
        except ValueError:  # its memory was closed in between
            raise self.stub.fault() from None
        free = channel.inbound.take_released()
        text = orjson.dumps({"inputs": packed, "outputs": list(outputs), "free": free})
        return frames.frame(Kind.EXECUTE, text, packer.payload)

    def trim(self) -> None:
        self.stub.channel.outbound.trim()


class IsolatedBackend(SupervisedBackend[IsolatedProcess]):
    def __init__(self, name: str, options: Mapping[str, str], services: BackendServices) -> None:
        self._backend = name
        self._options = options
        self._services = services

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        limits = read_options(config.parameters, {})
        given = Given(artifact, config, dict(self._options), instance)
        start = {"backend": self._backend, "given": given.text()}
        launched = _launch(instance.name, limits, self._services)

        def new_process() -> IsolatedProcess:
            process = IsolatedProcess(launched, self._services, exited=supervised.supervisor.lost)
            supervised.supervisor.starting(process)
            process.load(start)
            return process

        supervised = SupervisedInstance(
            instance.name, artifact, self._services, limits, new_process
        )
        self._begin(supervised)

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Array]:
        assert self._instance is not None
        with self._instance.turn() as process:
            return process.execute(inputs, outputs)

    async def check_ready(self) -> None:
        """The model has no say of its own."""


def _launch(name: str, limits: StubOptions, services: BackendServices) -> Launch:
    return Launch(
        name=name,
        interpreter=sys.executable,
        environment=services.environment,
        arena_size=limits.arena_size,
        memory_name=limits.memory_name,
        start_limit=limits.start_limit,
        resource_limits=limits.resource_limits,
        module=_MODULE,
    )


def _received(kind: int, text: Any, tensors: Unpacker) -> None:
    raise ValueError("an isolated backend has nothing to say on the side")
