"""What a backend is: loads an artifact, executes joined batches, lets go; and how it describes a file.

Arrays are C-contiguous and carry the batch dimension when the model batches. BF16 arrays hold the
bits as uint16, BYTES arrays are object arrays of `bytes`. Shapes are what the *backend* sees: a
`reshape` of the config has been applied to inputs before and is undone on outputs afterwards, both by
the scheduler.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from inference_runtime.backends.model_call import ModelCall, Reply, Reschedule
from inference_runtime.spec.host_policy import HostPolicy
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig
from inference_runtime.spec.model_control_port import ModelControlPort
from inference_runtime.telemetry.custom_metrics import CustomMetrics

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ModelArtifact:
    """The files of one version, for one load of it: compared by identity, so nothing of an older load is met.

    `directory` is `<model>/<version>`.
    """

    model_name: str
    version: int
    model_directory: Path
    directory: Path


@dataclass(frozen=True, slots=True)
class PortDescription:
    """An input or output as the file has it; `shape` None: the file does not say the rank."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactDescription:
    inputs: tuple[PortDescription, ...]
    outputs: tuple[PortDescription, ...]


class Backend(Protocol):
    """One loaded copy of a version on one device.

    The methods are called one at a time, `load` and `unload` off the event loop, `execute` on the
    instance's thread or, for models that take microseconds, on the event loop itself.
    """

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        """Everything slow happens here. Raises a RuntimeFault that says what is wrong."""

    def execute(self, inputs: Sequence[Array | None], outputs: Sequence[str]) -> list[Array]:
        """One array per `config.backend_inputs` (None: optional and absent) → one per name asked.

        Raises Internal with Triton's text when the model fails; every request of the batch gets it.
        """

    def unload(self) -> None:
        """Lets go of memory and handles; safe after a failed load and safe to repeat."""


class RequestBackend(Protocol):
    """A backend that sees requests one by one, each with its own id, parameters and answers.

    It is never called on the event loop, `execute_requests` always on its instance's own thread.
    """

    def load(self, artifact: ModelArtifact, config: ModelConfig, instance: InstanceSpec) -> None:
        """As `Backend.load`."""

    def execute_requests(self, calls: Sequence[ModelCall]) -> Sequence[Reply | Reschedule | None]:
        """One reply per call; None: its replies come through `call.send`, now or after this has returned.

        The instance takes its next batch when this returns. An exception is the reply to every call
        that has not had its last one.
        """

    def unload(self) -> None:
        """As `Backend.unload`; calls that still wait for their last reply get a fault before it returns."""


@dataclass(frozen=True, slots=True)
class BackendServices:
    """What the server offers the code of a model."""

    loop: asyncio.AbstractEventLoop
    inference: InferencePort
    models: ModelControlPort = field(default_factory=ModelControlPort)
    metrics: CustomMetrics = field(default_factory=CustomMetrics)
    environment: Mapping[str, str] = field(
        default_factory=dict
    )  # of processes that a backend starts
    # Where its instance's host policy wants it, for a thread of a backend's own and what that starts;
    # `load` is there already.
    place: Callable[[], AbstractContextManager[None]] = nullcontext


class BackendFactory(Protocol):
    """A backend class: makes copies, and describes a file without making one."""

    utf8_strings: bool  # BYTES elements must be UTF-8 text
    # Executions of one copy may overlap: several instances can stand on it. Else one does; while the number
    # of instances changes, its successor may call at the same time, and a copy sees to it that they take turns.
    overlapping: bool
    per_request: bool  # makes RequestBackends

    def __call__(
        self, options: Mapping[str, str], services: BackendServices
    ) -> Backend | RequestBackend: ...

    def gpu_support(self) -> bool:
        """Whether this backend, as installed here, could use a GPU."""

    def describe(
        self, artifact: ModelArtifact, config: Any, options: Mapping[str, str]
    ) -> ArtifactDescription | None:
        """What the file says of its inputs and outputs; None when this backend takes any config."""


@runtime_checkable
class ConfigCompleter(Protocol):
    """A factory whose models have a say in their config before it is checked."""

    def complete_config(
        self,
        artifact: ModelArtifact,
        config: Any,
        options: Mapping[str, str],
        services: BackendServices,
    ) -> Any:
        """The pb.ModelConfig that takes the place of `config`, which may be the same. Blocking; raises
        RuntimeFault."""


@runtime_checkable
class InstanceHealth(Protocol):
    """A backend whose copies can die while others live, or whose models have an opinion of their own."""

    @property
    def alive(self) -> bool:
        """Whether it can execute now. True without a question to anybody."""

    @property
    def process_number(self) -> int:
        """Of the process that executes, another for each; 0: there is none now."""

    @property
    def trouble(self) -> str:
        """Why it can not, for an operator."""

    async def check_ready(self) -> None:
        """Asks the model, on the event loop; raises the RuntimeFault that says why it is not ready."""

    def abort(self) -> None:
        """Ends what it executes with a fault, by force: the version is to go, and waited long enough."""

    @property
    def drain_limit(self) -> float:
        """Seconds that the version may take to finish what it has, before `abort`."""


@dataclass(frozen=True, slots=True)
class LoadedInstance:
    """A backend that has loaded, ready to be driven by the version's scheduler."""

    spec: InstanceSpec
    backend: Backend | RequestBackend
    load_ns: int = 0
    per_request: bool = False  # `backend` is a RequestBackend
    extras: Mapping[str, Any] = field(default_factory=dict)
    host_policy: HostPolicy | None = None  # where its thread runs

    @property
    def health(self) -> InstanceHealth | None:
        """None: it lives as long as the server."""
        return self.backend if isinstance(self.backend, InstanceHealth) else None
