"""A model's config, read once into frozen parts: durations in nanoseconds, datatypes by wire name.

`read` takes a proto that is complete and checked (see `config_defaults` and `config_rules`); the proto
itself is kept, because it is what the config API reports.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inference_runtime import pb
from inference_runtime.spec.datatypes import wire_name
from inference_runtime.spec.ensemble import EnsembleScheduling, read_ensemble
from inference_runtime.spec.ragged import (
    BatchInput,
    BatchOutput,
    read_batch_inputs,
    read_batch_outputs,
)
from inference_runtime.spec.sequence_config import SequenceBatching, read_sequence_batching


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output as clients see it, without the batch dimension; -1 is any size."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None  # what the backend sees instead of `dims`
    optional: bool = False
    ragged: bool = False  # allow_ragged_batch
    label_filename: str = ""

    @property
    def fixed(self) -> bool:
        return -1 not in self.dims


class TimeoutAction(enum.Enum):
    REJECT = 0
    DELAY = 1


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_ns: int = 0  # 0: a request may wait for ever
    allow_timeout_override: bool = False
    max_queue_size: int = 0  # 0: no bound of the config's own


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    preferred_batch_sizes: tuple[int, ...]  # ascending; empty when the model does not batch
    max_queue_delay_ns: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0  # 0: one level, request priorities are ignored
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    priority_queue_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)

    def queue_policy(self, level: int) -> QueuePolicy:
        return self.priority_queue_policies.get(level, self.default_queue_policy)


class InstanceKind(enum.Enum):
    AUTO = 0
    GPU = 1
    CPU = 2
    MODEL = 3


@dataclass(frozen=True, slots=True)
class ResourceNeed:
    """Slots that an instance holds while it executes: of its device, or of the whole server."""

    name: str
    count: int
    whole_server: bool = False  # `global` in the config


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    name: str
    kind: InstanceKind
    count: int
    gpus: tuple[int, ...] = ()
    passive: bool = False  # loaded, but never given work
    host_policy: str = ""
    resources: tuple[ResourceNeed, ...] = ()
    priority: int = 0  # 2 gets half the turns of 1 where slots are scarce; 0 is 1


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One copy to be made of a version: `<group>_<n>` on one device."""

    name: str
    kind: InstanceKind
    device: str  # "cpu" or "gpu:<index>"
    passive: bool = False
    resources: tuple[ResourceNeed, ...] = ()
    priority: int = 0
    host_policy: str = ""  # that its group names; "": the one of its kind

    @property
    def gpu(self) -> int | None:
        return int(self.device.removeprefix("gpu:")) if self.device != "cpu" else None


@dataclass(frozen=True, slots=True, eq=False)
class ModelConfig:
    name: str
    platform: str
    backend: str
    max_batch_size: int  # 0: no batch dimension
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    instance_groups: tuple[InstanceGroup, ...]
    dynamic_batching: DynamicBatching | None  # None: the default scheduler
    default_model_filename: str
    parameters: Mapping[str, str]
    metric_tags: Mapping[str, str]
    decoupled: bool
    proto: Any  # pb.ModelConfig, complete; treat as read-only
    input_index: Mapping[str, int]
    output_index: Mapping[str, int]
    ensemble: EnsembleScheduling | None = None
    sequence_batching: SequenceBatching | None = None
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    injected_inputs: tuple[TensorSpec, ...] = ()  # not the clients': the server fills them in

    @property
    def backend_inputs(self) -> tuple[TensorSpec, ...]:
        """In the order in which a backend gets them."""
        return self.inputs + self.injected_inputs

    @property
    def batching(self) -> bool:
        return self.max_batch_size > 0

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self.output_index)

    @property
    def has_optional_inputs(self) -> bool:
        return any(spec.optional for spec in self.inputs)

    def instances(self) -> Iterator[InstanceSpec]:
        """Every copy the groups ask for, named as Triton names them: a KIND_GPU group counts per GPU."""
        for group in self.instance_groups:
            devices = [f"gpu:{gpu}" for gpu in group.gpus] or ["cpu"]
            number = 0
            for device in devices:
                for _ in range(group.count):
                    yield InstanceSpec(
                        f"{group.name}_{number}",
                        group.kind,
                        device,
                        group.passive,
                        group.resources,
                        group.priority,
                        group.host_policy,
                    )
                    number += 1


def read(proto: pb.ModelConfig) -> ModelConfig:
    inputs = tuple(_input(entry) for entry in proto.input)
    outputs = tuple(_output(entry) for entry in proto.output)
    sequences = read_sequence_batching(proto)
    batch_inputs = read_batch_inputs(proto)
    return ModelConfig(
        name=proto.name,
        platform=proto.platform,
        backend=proto.backend,
        max_batch_size=proto.max_batch_size,
        inputs=inputs,
        outputs=outputs,
        instance_groups=tuple(_group(entry) for entry in proto.instance_group),
        dynamic_batching=_batching(proto),
        default_model_filename=proto.default_model_filename,
        parameters={key: value.string_value for key, value in proto.parameters.items()},
        metric_tags=dict(proto.metric_tags),
        decoupled=proto.model_transaction_policy.decoupled,
        proto=proto,
        input_index={spec.name: index for index, spec in enumerate(inputs)},
        output_index={spec.name: index for index, spec in enumerate(outputs)},
        ensemble=read_ensemble(proto),
        sequence_batching=sequences,
        batch_inputs=batch_inputs,
        batch_outputs=read_batch_outputs(proto),
        injected_inputs=_described(batch_inputs) + _injected(sequences),
    )


def _reshape(entry: Any) -> tuple[int, ...] | None:
    return tuple(entry.reshape.shape) if entry.HasField("reshape") else None


def _input(entry: pb.ModelInput) -> TensorSpec:
    return TensorSpec(
        name=entry.name,
        datatype=wire_name(entry.data_type),
        dims=tuple(entry.dims),
        reshape=_reshape(entry),
        optional=entry.optional,
        ragged=entry.allow_ragged_batch,
    )


def _output(entry: pb.ModelOutput) -> TensorSpec:
    return TensorSpec(
        name=entry.name,
        datatype=wire_name(entry.data_type),
        dims=tuple(entry.dims),
        reshape=_reshape(entry),
        label_filename=entry.label_filename,
    )


def _described(batch_inputs: tuple[BatchInput, ...]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name, entry.datatype, (-1,))
        for entry in batch_inputs
        for name in entry.target_names
    )


def _injected(sequences: SequenceBatching | None) -> tuple[TensorSpec, ...]:
    if sequences is None:
        return ()
    controls = [TensorSpec(control.name, control.datatype, (1,)) for control in sequences.controls]
    states = [
        TensorSpec(state.input_name, state.datatype, state.dims) for state in sequences.states
    ]
    return (*controls, *states)


def _group(entry: pb.ModelInstanceGroup) -> InstanceGroup:
    return InstanceGroup(
        name=entry.name,
        kind=InstanceKind(entry.kind),
        count=entry.count,
        gpus=tuple(entry.gpus),
        passive=entry.passive,
        host_policy=entry.host_policy,
        resources=tuple(
            ResourceNeed(need.name, need.count, getattr(need, "global"))
            for need in entry.rate_limiter.resources
        ),
        priority=entry.rate_limiter.priority,
    )


def _queue_policy(entry: pb.ModelQueuePolicy) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=TimeoutAction(entry.timeout_action),
        default_timeout_ns=entry.default_timeout_microseconds * 1000,
        allow_timeout_override=entry.allow_timeout_override,
        max_queue_size=entry.max_queue_size,
    )


def _batching(proto: pb.ModelConfig) -> DynamicBatching | None:
    if not proto.HasField("dynamic_batching"):
        return None
    entry = proto.dynamic_batching
    return DynamicBatching(
        preferred_batch_sizes=tuple(sorted(set(entry.preferred_batch_size))),
        max_queue_delay_ns=entry.max_queue_delay_microseconds * 1000,
        preserve_ordering=entry.preserve_ordering,
        priority_levels=entry.priority_levels,
        default_priority_level=entry.default_priority_level,
        default_queue_policy=_queue_policy(entry.default_queue_policy),
        priority_queue_policies={
            level: _queue_policy(policy) for level, policy in entry.priority_queue_policy.items()
        },
    )
