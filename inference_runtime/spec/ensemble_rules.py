"""What an ensemble's config must not say, in Triton's words; its models are not looked at. Pure."""

from typing import Any

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.ensemble import EnsembleScheduling, read_ensemble


def check_ensemble(proto: Any) -> None:
    """Raises InvalidArgument. Inputs and outputs are declared: an ensemble has nothing to complete them from."""
    name = proto.name
    if proto.backend:
        raise InvalidArgument(
            f"Ensemble model '{name}' must have platform type 'ensemble' and empty backend type"
        )
    if not proto.HasField("ensemble_scheduling"):
        raise InvalidArgument(
            f"ensemble scheduling must be set for ensemble {name} whose platform is ensemble"
        )
    if proto.instance_group:
        raise InvalidArgument(f"instance group should not be specified for ensemble '{name}'")
    if proto.HasField("optimization"):
        raise InvalidArgument(f"optimization should not be specified for ensemble '{name}'")
    if proto.model_warmup:
        raise InvalidArgument(f"model_warmup can not be specified for ensemble '{name}'")
    _check_steps(proto)
    scheduling = read_ensemble(proto)
    assert scheduling is not None
    _check_tensors(proto, scheduling)


def _check_steps(proto: Any) -> None:
    name = proto.name
    steps = proto.ensemble_scheduling.step
    if not steps:
        raise InvalidArgument(f"must specify 'step' for ensemble '{name}'")
    written: set[str] = set()
    for index, step in enumerate(steps):
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                raise InvalidArgument(
                    f"must specify '{field}' in step {index} of ensemble '{name}'"
                )
        for tensor in step.output_map.values():
            if tensor in written:
                raise InvalidArgument(
                    f"ensemble tensor '{tensor}' can appear in an output map only once for "
                    f"ensemble '{name}' step {index}"
                )
            written.add(tensor)


def _check_tensors(proto: Any, scheduling: EnsembleScheduling) -> None:
    name = proto.name
    inputs = [entry.name for entry in proto.input]
    outputs = [entry.name for entry in proto.output]
    consumed = {tensor for step in scheduling.steps for tensor in step.inputs.values()}
    produced = {tensor for step in scheduling.steps for tensor in step.outputs.values()}
    known = consumed | produced
    for kind, names in (("input", inputs), ("output", outputs)):
        for tensor in names:
            if tensor not in known and not (kind == "output" and tensor in inputs):
                raise InvalidArgument(
                    f"ensemble {kind} '{tensor}' for ensemble {name}' is not used"
                )
    ready = _reachable(scheduling, inputs)
    for tensor in outputs:
        if tensor not in ready:
            raise InvalidArgument(
                f"output '{tensor}' for ensemble '{name}' is not written"
                + _culprit(scheduling, tensor, ready)
            )
    for tensor in sorted(known):
        if tensor not in ready or (tensor not in consumed and tensor not in outputs):
            raise InvalidArgument(f"ensemble tensor '{tensor}' is unused in ensemble '{name}'")


def _reachable(scheduling: EnsembleScheduling, inputs: list[str]) -> set[str]:
    ready = set(inputs)
    left = list(scheduling.steps)
    while left:
        able = [step for step in left if ready.issuperset(step.inputs.values())]
        if not able:
            break
        for step in able:
            ready.update(step.outputs.values())
            left.remove(step)
    return ready


def _culprit(scheduling: EnsembleScheduling, output: str, ready: set[str]) -> str:
    """The tensor nearest to the inputs that nothing provides and that `output` depends on."""
    producers = {tensor: step for step in scheduling.steps for tensor in step.outputs.values()}
    seen: set[str] = set()
    tensor = output
    while tensor in producers and tensor not in seen:
        seen.add(tensor)
        missing = [each for each in producers[tensor].inputs.values() if each not in ready]
        if not missing:
            return ""
        tensor = missing[0]
    if tensor == output:
        return ""
    return f": at least one of its depending tensors, '{tensor}', is not connected"
