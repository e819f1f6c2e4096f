"""Uploaded config + serving settings + wanted versions → the config.pbtxt a runtime is given. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_rules import check_dynamic_batching
from inference_runtime.spec.config_text import config_from_text, config_to_json, config_to_text
from inference_runtime.spec.datatypes import BY_WIRE
from webapp.serving.config_values import (
    ConfigProblem,
    FieldProblem,
    ServingValues,
    lists_ports,
    values_of,
)

# What a runtime chooses for a model that can batch and whose config does not say.
DEFAULT_MAX_BATCH_SIZE = 4


@dataclass(frozen=True, slots=True)
class Artifact:
    """What the composer must know of a version: its config as uploaded, its inputs and outputs."""

    config_text: str = ""
    inputs: Sequence[Mapping[str, Any]] = ()  # {"name", "datatype", "shape"}; batch axis as -1
    outputs: Sequence[Mapping[str, Any]] = ()

    @property
    def batchable(self) -> bool:
        """Every input and output has a free first dimension."""
        shapes = [port["shape"] for port in (*self.inputs, *self.outputs)]
        return bool(shapes) and all(len(shape) > 0 and shape[0] == -1 for shape in shapes)


@dataclass(frozen=True, slots=True)
class ComposedConfig:
    text: str
    json: str
    max_batch_size: int  # what the runtime will use; 0: requests are not batched


def base_values(artifact: Artifact) -> ServingValues:
    """What the settings are as long as nobody edits them."""
    return values_of(_base(artifact))


def compose(
    *,
    model: str,
    artifact: Artifact,
    versions: Sequence[int],
    values: ServingValues | None,
) -> ComposedConfig:
    """`values` None uses the uploaded config as it is. Raises ConfigProblem, which names the fields."""
    config = _base(artifact)
    config.name = model
    config.ClearField("version_policy")
    config.version_policy.specific.versions.extend(sorted(versions))
    max_batch_size = _max_batch_size(config, artifact, values)
    if values is not None:
        if problems := _problems(config, artifact, values, max_batch_size):
            raise ConfigProblem(problems)
        _apply(config, artifact, values, max_batch_size)
    try:
        if max_batch_size == config.max_batch_size:
            check_dynamic_batching(config)
    except InvalidArgument as problem:
        raise ConfigProblem([FieldProblem("config", problem.text)]) from None
    return ComposedConfig(config_to_text(config), config_to_json(config), max_batch_size)


def _base(artifact: Artifact) -> pb.ModelConfig:
    try:
        return config_from_text(artifact.config_text)
    except InvalidArgument as problem:
        raise ConfigProblem([FieldProblem("config", problem.text)]) from None


def _max_batch_size(
    config: pb.ModelConfig, artifact: Artifact, values: ServingValues | None
) -> int:
    if values is not None and values.max_batch_size is not None:
        return values.max_batch_size
    if config.max_batch_size or lists_ports(config) or not artifact.batchable:
        return int(config.max_batch_size)
    return DEFAULT_MAX_BATCH_SIZE


def _problems(
    config: pb.ModelConfig, artifact: Artifact, values: ServingValues, max_batch_size: int
) -> list[FieldProblem]:
    problems = []
    if max_batch_size > 0 and artifact.inputs and not artifact.batchable:
        problems.append(
            FieldProblem(
                "max_batch_size",
                "the model's inputs and outputs have no free first dimension, so requests cannot "
                "be joined; leave it empty or 0",
            )
        )
    problems += _scheduler_problems(config, values, max_batch_size)
    problems += [
        FieldProblem(
            "preferred_batch_sizes", f"{size} is more than the largest batch, {max_batch_size}"
        )
        for size in values.preferred_batch_sizes
        if size > max_batch_size > 0
    ]
    return problems


_NEEDS_BATCHER = (
    "preferred_batch_sizes",
    "max_queue_delay_microseconds",
    "max_queue_size",
    "default_timeout_microseconds",
)


def _scheduler_problems(
    config: pb.ModelConfig, values: ServingValues, max_batch_size: int
) -> list[FieldProblem]:
    if config.HasField("sequence_batching") or config.HasField("ensemble_scheduling"):
        why = "the uploaded config brings its own scheduler, which has no such setting"
    elif not values.dynamic_batching:
        why = "this is a setting of the dynamic batcher, which is switched off"
    elif max_batch_size == 0:
        why = "this is a setting of the dynamic batcher, and the model does not batch"
    else:
        return []
    return [FieldProblem(name, why) for name in _NEEDS_BATCHER if getattr(values, name)]


def _apply(
    config: pb.ModelConfig, artifact: Artifact, values: ServingValues, max_batch_size: int
) -> None:
    if values.instance_count is not None:
        _apply_instances(config, values.instance_count)
    own_scheduler = config.HasField("sequence_batching") or config.HasField("ensemble_scheduling")
    batcher = values.dynamic_batching and max_batch_size > 0 and not own_scheduler
    # Without both lists the runtime would complete the config, and so undo a "no".
    must_list = artifact.batchable and (max_batch_size == 0 or not (batcher or own_scheduler))
    _apply_batch_dimension(config, max_batch_size)
    if must_list and not lists_ports(config):
        _list_ports(config, artifact, batched=max_batch_size > 0)
    if batcher:
        _apply_batcher(config, values)
    elif not own_scheduler:
        config.ClearField("dynamic_batching")


def _apply_instances(config: pb.ModelConfig, count: int) -> None:
    if not config.instance_group:
        config.instance_group.add()
    for group in config.instance_group:
        group.count = count


def _apply_batch_dimension(config: pb.ModelConfig, max_batch_size: int) -> None:
    """Listed dims leave the batch dimension out exactly when the model batches."""
    was_batched = config.max_batch_size > 0
    config.max_batch_size = max_batch_size
    if was_batched == (max_batch_size > 0):
        return
    for port in (*config.input, *config.output):
        dims = list(port.dims)
        if was_batched:
            dims.insert(0, -1)
        elif dims[:1] == [-1]:
            dims = dims[1:]
        else:
            raise ConfigProblem(
                [
                    FieldProblem(
                        "max_batch_size",
                        f"the uploaded config gives '{port.name}' a fixed first dimension; "
                        "upload a config with -1 there to batch requests",
                    )
                ]
            )
        if not dims or port.HasField("reshape"):
            raise ConfigProblem(
                [
                    FieldProblem(
                        "max_batch_size",
                        f"the uploaded config describes '{port.name}' in a way that cannot be "
                        "changed here; upload a config with the batch size you want",
                    )
                ]
            )
        del port.dims[:]
        port.dims.extend(dims)


def _list_ports(config: pb.ModelConfig, artifact: Artifact, *, batched: bool) -> None:
    for listed, ports in ((config.input, artifact.inputs), (config.output, artifact.outputs)):
        if listed:
            continue
        for port in ports:
            entry = listed.add(name=port["name"], data_type=BY_WIRE[port["datatype"]].number)
            dims = list(port["shape"])[1:] if batched else list(port["shape"])
            entry.dims.extend(dims or [1])
            if not dims:
                entry.reshape.SetInParent()


def _apply_batcher(config: pb.ModelConfig, values: ServingValues) -> None:
    batcher = config.dynamic_batching
    batcher.SetInParent()
    del batcher.preferred_batch_size[:]
    batcher.preferred_batch_size.extend(values.preferred_batch_sizes)
    batcher.max_queue_delay_microseconds = values.max_queue_delay_microseconds
    limits = values.max_queue_size, values.default_timeout_microseconds
    if any(limits) or batcher.HasField("default_queue_policy"):
        policy = batcher.default_queue_policy
        policy.max_queue_size, policy.default_timeout_microseconds = limits
