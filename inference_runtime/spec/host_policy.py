"""Which processors and which memory the instances of a group use: `--host-policy`. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from inference_runtime.spec.model_config import InstanceKind

_CORES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """`cores` empty: those of the node; neither given: nothing is asked for."""

    cores: tuple[int, ...] = ()
    numa_node: int | None = None


def policy_name(configured: str, kind: InstanceKind, gpu: int | None) -> str:
    """The policy an instance goes by: the one its group names, or the one of its kind."""
    if configured:
        return configured
    if kind is InstanceKind.GPU:
        return f"gpu_{gpu}"
    return "model" if kind is InstanceKind.MODEL else "cpu"


def read_policies(entries: Iterable[str]) -> Mapping[str, HostPolicy]:
    """Of entries `<policy>,<setting>=<value>`; raises ValueError with what is wrong with one."""
    policies: dict[str, HostPolicy] = {}
    for entry in entries:
        name, _, setting = entry.partition(",")
        key, _, value = setting.partition("=")
        policy = policies.get(name, HostPolicy())
        if not name or not value:
            raise ValueError(f'use <policy>,<setting>=<value>, not "{entry}"')
        if key == "numa-node":
            if re.fullmatch("[0-9]{1,6}", value) is None:
                raise ValueError(f'numa-node must be the number of a node, not "{value}"')
            policies[name] = replace(policy, numa_node=int(value))
        elif key == "cpu-cores":
            policies[name] = replace(policy, cores=read_cores(value))
        else:
            raise ValueError(f'the settings are numa-node and cpu-cores, not "{key}"')
    return policies


def read_cores(text: str) -> tuple[int, ...]:
    """`0-3,8` as the kernel writes it; raises ValueError."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        match = _CORES.fullmatch(part)
        if match is None:
            raise ValueError(f'cpu-cores are given like 0-3 or 0-3,8, not "{text}"')
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + 10_000:
            raise ValueError(f'cpu-cores "{part}" is no range of processors')
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))
