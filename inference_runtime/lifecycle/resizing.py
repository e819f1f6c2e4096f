"""A version that only gets other instance groups: same files, same counters, the copies there are kept."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from inference_runtime import pb
from inference_runtime.backends.base import BackendFactory, LoadedInstance
from inference_runtime.lifecycle.version_config import BackendSettings
from inference_runtime.spec.config_defaults import fill_instance_groups
from inference_runtime.spec.config_rules import check_instance_groups
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig, read


def same_but_for(before: Any, after: Any, *fields: str) -> bool:
    """Whether two configs differ in these fields at most."""
    return bool(_without(before, fields) == _without(after, fields))


def _without(proto: Any, fields: Iterable[str]) -> Any:
    copy = pb.ModelConfig()
    copy.CopyFrom(proto)
    for name in fields:
        copy.ClearField(name)
    return copy


def resized_config(
    config: ModelConfig, wanted: Any, factory: BackendFactory, settings: BackendSettings
) -> ModelConfig:
    """The complete config with the instance groups of `wanted`; raises InvalidArgument."""
    proto = pb.ModelConfig()
    proto.CopyFrom(config.proto)
    proto.ClearField("instance_group")
    proto.instance_group.extend(wanted.instance_group)
    proto.version_policy.CopyFrom(wanted.version_policy)
    supported = factory.gpu_support()
    gpus = settings.usable_gpus if supported else ()
    fill_instance_groups(proto, gpus)
    check_instance_groups(
        proto,
        gpus,
        gpu_support=supported,
        min_compute_capability=settings.min_compute_capability,
    )
    # The initial states that were read with the files, which are the same.
    return replace(read(proto), sequence_batching=config.sequence_batching)


def keeps_copies(factory: BackendFactory, config: ModelConfig) -> bool:
    """Whether copies can serve instances of another number, while those there are finish what they have."""
    # A model that keeps a sequence's state by its place in the batch must not see two schedulers.
    return factory.overlapping or config.sequence_batching is None


def shared_instances(
    config: ModelConfig, instances: Iterable[LoadedInstance], *, overlapping: bool
) -> tuple[list[LoadedInstance], list[InstanceSpec]]:
    """Instances of the config that can run on copies there are, and those that need a copy of their own.

    Copies that can not overlap serve one instance each.
    """
    by_place: dict[Any, deque[LoadedInstance]] = {}
    for instance in instances:
        by_place.setdefault(_place(instance.spec), deque()).append(instance)
    shared: list[LoadedInstance] = []
    missing: list[InstanceSpec] = []
    for spec in config.instances():
        copies = by_place.get(_place(spec))
        if not copies:
            missing.append(spec)
            continue
        source = copies.popleft()
        if overlapping:
            copies.append(source)
        shared.append(replace(source, spec=spec))
    return shared, missing


def _place(spec: InstanceSpec) -> tuple[object, ...]:
    return spec.kind, spec.device, spec.host_policy
