"""An ensemble against the models it is made of, as they serve now. Texts are Triton's. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.datatypes import config_name
from inference_runtime.spec.ensemble import LATEST, EnsembleScheduling, EnsembleStep
from inference_runtime.spec.model_config import ModelConfig, TensorSpec
from inference_runtime.spec.tensors import shape_text

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ComposingModels:
    """`serving`: model → version → config. `unknown`: no such model; `failed`: why it did not load;
    `circle`: the ensemble would ask itself."""

    serving: Mapping[str, Mapping[int, ModelConfig]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    circle: str = ""


def check_composition(config: ModelConfig, composing: ComposingModels) -> tuple[bool, ...]:
    """By step, whether its model is decoupled; raises InvalidArgument."""
    assert config.ensemble is not None
    if composing.circle:
        raise InvalidArgument(composing.circle)
    if composing.unknown:
        raise InvalidArgument(
            f"ensemble {config.name} contains models that are not available or ambiguous: "
            + ",".join(composing.unknown)
        )
    check = _Composition(config)
    for index, step in enumerate(config.ensemble.steps):
        check.step(step, _model(config, step, composing), index)
    check_origins(config.name, config.ensemble, check.decoupled)
    return tuple(check.decoupled)


def _model(config: ModelConfig, step: EnsembleStep, composing: ComposingModels) -> ModelConfig:
    serving = composing.serving.get(step.model_name, {})
    prefix = f"ensemble '{config.name}' depends on '{step.model_name}'"
    if not serving:
        text = f"{prefix} which has no loaded version"
        why = composing.failed.get(step.model_name, "")
        if why:
            text += f". Model '{step.model_name}' loading failed with error: {why}"
        raise InvalidArgument(text)
    if step.version == LATEST:
        return serving[max(serving)]
    if step.version not in serving:
        raise InvalidArgument(f"{prefix} whose required version {step.version} is not loaded.")
    return serving[step.version]


@dataclass(frozen=True, slots=True)
class _Inferred:
    model: str
    datatype: str
    shape: Shape


class _Composition:
    def __init__(self, config: ModelConfig) -> None:
        self._ensemble = config
        self._tensors: dict[str, _Inferred] = {}
        self.decoupled: list[bool] = []
        for spec in (*config.inputs, *config.outputs):
            self._infer(spec.name, config, spec)

    def step(self, step: EnsembleStep, model: ModelConfig, index: int) -> None:
        self._check_names(step, model)
        self._check_batch_size(model)
        for name, tensor in step.inputs.items():
            self._infer(tensor, model, model.inputs[model.input_index[name]])
        for name, tensor in step.outputs.items():
            self._infer(tensor, model, model.outputs[model.output_index[name]])
        self.decoupled.append(model.decoupled)

    def _check_names(self, step: EnsembleStep, model: ModelConfig) -> None:
        start = f"in ensemble {self._ensemble.name}, "
        for name, tensor in step.inputs.items():
            if name not in model.input_index:
                raise InvalidArgument(
                    f"{start}ensemble tensor {tensor} is mapping to non-existing input {name} in "
                    f"model {step.model_name}"
                )
        for name, tensor in step.outputs.items():
            if name not in model.output_index:
                raise InvalidArgument(
                    f"{start}ensemble tensor {tensor} is mapped from non-existing output {name} in "
                    f"model {step.model_name}"
                )
        for spec in model.inputs:
            if spec.name not in step.inputs and not spec.optional:
                raise InvalidArgument(
                    f"{start}input {spec.name} in model {step.model_name} is not mapped to any "
                    "ensemble tensors"
                )

    def _check_batch_size(self, model: ModelConfig) -> None:
        mine = self._ensemble.max_batch_size
        if model.batching and mine > model.max_batch_size:
            raise InvalidArgument(
                f"ensemble {self._ensemble.name} allows maximum batch size {mine}, but it contains "
                f"model {model.name} which only allows maximum batch size to be "
                f"{model.max_batch_size}"
            )

    def _infer(self, tensor: str, model: ModelConfig, spec: TensorSpec) -> None:
        shape = (-1, *spec.dims) if model.batching else spec.dims
        known = self._tensors.setdefault(tensor, _Inferred(model.name, spec.datatype, shape))
        start = f"in ensemble {self._ensemble.name}, ensemble tensor {tensor}: inconsistent "
        if known.datatype != spec.datatype:
            raise InvalidArgument(
                f"{start}data type: {config_name(known.datatype)} is inferred from model "
                f"{known.model} while {config_name(spec.datatype)} is inferred from model "
                f"{model.name}"
            )
        if not _compatible(known.shape, shape):
            raise InvalidArgument(
                f"{start}shape: {shape_text(known.shape)} is inferred from model {known.model} "
                f"while {shape_text(shape)} is inferred from model {model.name}"
            )


def _compatible(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(
        mine == theirs or -1 in (mine, theirs) for mine, theirs in zip(one, other, strict=True)
    )


def check_origins(name: str, scheduling: EnsembleScheduling, decoupled: list[bool]) -> None:
    """No step may combine what two decoupled models produce: nothing says which goes with which."""
    origins: dict[str, int | None] = {}
    left = dict(enumerate(scheduling.steps))
    while left:
        produced = {tensor for step in left.values() for tensor in step.outputs.values()}
        able = [i for i, step in left.items() if not produced.intersection(step.inputs.values())]
        if not able:
            return  # a circle, which the config's own check has refused
        for index in able:
            step = left.pop(index)
            found: set[Any] = {origins.get(tensor) for tensor in step.inputs.values()} - {None}
            if len(found) > 1:
                raise InvalidArgument(
                    f"in ensemble {name}, step of model '{step.model_name}' receives inputs "
                    "originated from different decoupled models"
                )
            origin = index if decoupled[index] else next(iter(found), None)
            origins.update(dict.fromkeys(step.outputs.values(), origin))
