"""Fills the gaps of a config from what the backend says of the file, and refuses a config that contradicts it. Pure."""

import logging
from collections.abc import Sequence
from typing import Any

from inference_runtime.backends.base import ArtifactDescription, PortDescription
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.datatypes import BY_NUMBER, config_name
from inference_runtime.spec.ragged import batch_input_names
from inference_runtime.spec.sequence_rules import injected_inputs
from inference_runtime.spec.tensors import shape_text

logger = logging.getLogger(__name__)

DEFAULT_MAX_BATCH_SIZE = 4


def complete(proto: Any, description: ArtifactDescription, default_max_batch_size: int) -> None:
    """Changes `proto`; a config that lists inputs and outputs is left as it is."""
    if (proto.input or proto.batch_input) and proto.output:
        logger.info(
            "skipping model configuration auto-complete for '%s': inputs and outputs already specified",
            proto.name,
        )
        return
    _complete_batching(proto, description, default_max_batch_size)
    batching = proto.max_batch_size > 0
    # What the server fills in and keeps is not the clients'.
    injected = [*injected_inputs(proto), *batch_input_names(proto)]
    kept = [state.output_name for state in proto.sequence_batching.state]
    if not proto.input:
        for port in description.inputs:
            # Weights that a request may replace are inputs only where a config says so.
            if port.name not in injected and not port.optional:
                _fill(proto.input.add(), port, batching)
    if not proto.output:
        for port in description.outputs:
            if port.name not in kept:
                _fill(proto.output.add(), port, batching)


def can_batch(description: ArtifactDescription) -> bool:
    required = (port for port in description.inputs if not port.optional)
    ports = (*required, *description.outputs)
    return bool(ports) and all(port.shape is not None and port.shape[:1] == (-1,) for port in ports)


def _complete_batching(
    proto: Any, description: ArtifactDescription, default_max_batch_size: int
) -> None:
    batches = can_batch(description)
    if not batches and proto.max_batch_size > 0:
        raise InvalidArgument(
            f"autofill failed for model '{proto.name}': model does not support batching while "
            "non-zero max_batch_size is specified"
        )
    if batches and proto.max_batch_size == 0:
        proto.max_batch_size = default_max_batch_size
        logger.warning(
            "autofilled max_batch_size to %d for model '%s' since batching is supporrted but no "
            "max_batch_size is specified in model configuration",
            default_max_batch_size,
            proto.name,
        )
    if proto.max_batch_size > 1 and not _has_scheduler(proto):
        proto.dynamic_batching.SetInParent()


def _has_scheduler(proto: Any) -> bool:
    return bool(proto.HasField("dynamic_batching") or proto.HasField("sequence_batching"))


def _fill(entry: Any, port: PortDescription, batching: bool) -> None:
    entry.name = port.name
    entry.data_type = config_name(port.datatype)
    shape = port.shape or ()
    dims = shape[1:] if batching else shape
    if dims:
        # A config has no word for a dimension that is always empty: an open one lets it be asked.
        entry.dims.extend(dim or -1 for dim in dims)
        return
    entry.dims.append(1)
    if batching:
        entry.reshape.SetInParent()


def check_agreement(proto: Any, description: ArtifactDescription) -> None:
    """Whether a complete config and the file mean the same model; raises InvalidArgument in Triton's words."""
    required = [port for port in description.inputs if not port.optional]
    count = len(proto.input) + len(injected_inputs(proto)) + len(batch_input_names(proto))
    if not len(required) <= count <= len(description.inputs):
        raise InvalidArgument(
            f"unable to load model '{proto.name}', configuration expects {count} inputs, "
            f"model provides {len(required)}"
        )
    for kind, entries, ports in (
        ("input", proto.input, description.inputs),
        ("output", proto.output, description.outputs),
    ):
        known = {port.name: port for port in ports}
        for entry in entries:
            if entry.name not in known:
                raise InvalidArgument(
                    f"unexpected inference {kind} '{entry.name}', allowed {kind}s are: "
                    + ", ".join(known)
                )
            if kind == "input" and entry.optional and proto.max_batch_size > 0:
                raise InvalidArgument(
                    f"unable to load model '{proto.name}', optional input '{entry.name}' is not supported "
                    "for models that support batching"
                )
            _check_port(proto, kind, entry, known[entry.name])


def _check_port(proto: Any, kind: str, entry: Any, port: PortDescription) -> None:
    expected = BY_NUMBER[entry.data_type].config
    if expected != config_name(port.datatype):
        raise InvalidArgument(
            f"unable to load model '{proto.name}', configuration expects datatype {expected} for "
            f"{kind} '{entry.name}', model provides {config_name(port.datatype)}"
        )
    if _is_flat(proto, kind, entry):
        _check_flat(proto, entry.name, port)
        return
    if port.shape is None or (not port.shape and not proto.max_batch_size):
        return  # the file does not tell an unknown rank from a scalar, which clients see as [1]
    shape = tuple(entry.reshape.shape if entry.HasField("reshape") else entry.dims)
    if proto.max_batch_size > 0:
        _check_batch_dimension(proto, entry.name, port.shape)
        shape = (-1, *shape)
    rows = 1 if proto.max_batch_size > 0 else 0
    fits = _is_like if kind == "output" else _fits
    if len(shape) != len(port.shape) or not fits(shape[rows:], port.shape[rows:]):
        raise InvalidArgument(shape_message(proto, entry.name, shape, port.shape))


def _is_flat(proto: Any, kind: str, entry: Any) -> bool:
    """Whether the file sees the tensor without rows, all requests of a batch behind each other."""
    if proto.max_batch_size == 0:
        return False
    if kind == "input":
        return bool(entry.allow_ragged_batch)
    return any(entry.name in output.target_name for output in proto.batch_output)


def _check_flat(proto: Any, name: str, port: PortDescription) -> None:
    if port.shape is not None and port.shape != (-1,):
        raise InvalidArgument(
            f"model '{proto.name}', tensor '{name}': a ragged batch comes as one flat tensor, "
            f"so the model's shape must be [-1], but it is {shape_text(port.shape)}"
        )


def _check_batch_dimension(proto: Any, name: str, shape: Sequence[int]) -> None:
    if not shape or shape[0] != -1:
        raise InvalidArgument(
            f"model '{proto.name}', tensor '{name}': for the model to support batching the shape "
            "should have at least 1 dimension and the first dimension must be -1; but shape "
            f"expected by the model is {shape_text(shape)}"
        )


def _fits(configured: Sequence[int], found: Sequence[int]) -> bool:
    """A size of an input that the file leaves open may be fixed by the config, never the other way round."""
    pairs = zip(configured, found, strict=True)
    return all(theirs == -1 or _is_like([mine], [theirs]) for mine, theirs in pairs)


def _is_like(configured: Sequence[int], found: Sequence[int]) -> bool:
    """What is always empty in the file is open in the config, which can not say 0."""
    return tuple(configured) == tuple(theirs or -1 for theirs in found)


def shape_message(proto: Any, name: str, configured: Sequence[int], found: Sequence[int]) -> str:
    start = (
        f"model '{proto.name}', tensor '{name}': the model expects {len(found)} dimensions "
        f"(shape {shape_text(found)}) but the model configuration specifies {len(configured)} dimensions "
    )
    if proto.max_batch_size > 0:
        return (
            f"{start}(an initial batch dimension because max_batch_size > 0 followed by the explicit "
            f"tensor shape, making complete shape {shape_text(configured)})"
        )
    return f"{start}(shape {shape_text(configured)})"
