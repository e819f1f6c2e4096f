"""What a config must not say, in Triton's words. Every function raises InvalidArgument or returns. Pure."""

import logging
from collections.abc import Sequence
from typing import Any

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_defaults import ENSEMBLE, KNOWN_PLATFORMS
from inference_runtime.spec.ensemble_rules import check_ensemble

logger = logging.getLogger(__name__)

TENSORRT = "tensorrt_plan"
MIN_COMPUTE_CAPABILITY = 7.5  # what GPUs must have, unless the command line says otherwise
CUSTOMIZABLE_FAMILY = "nv_inference_first_response_histogram_ms"


def check_identity(proto: Any, directory: str) -> None:
    """Name, backend and platform; run after `fill_identity`."""
    if proto.name != directory:
        raise InvalidArgument(
            f"unexpected directory name '{directory}' for model '{proto.name}', "
            "directory name must equal model name"
        )
    if proto.max_batch_size < 0:
        raise InvalidArgument(f"'max_batch_size' must be non-negative value for {proto.name}")
    if proto.HasField("ensemble_scheduling") and proto.platform != ENSEMBLE:
        raise InvalidArgument(
            f"ensemble scheduling cannot be set for model '{proto.name}' whose platform is not ensemble"
        )
    if proto.platform == ENSEMBLE:
        check_ensemble(proto)
        return
    if not proto.backend:
        raise InvalidArgument(f"unexpected platform type '{proto.platform}' for {proto.name}")
    _check_pair(proto)


def _check_pair(proto: Any) -> None:
    platforms = {row.platform for row in KNOWN_PLATFORMS if row.backend == proto.backend}
    if platforms and proto.platform and proto.platform not in platforms:
        raise InvalidArgument(
            f"unexpected 'platform' and 'backend' pair, got:{proto.platform}, {proto.backend}"
        )


def check_ports(proto: Any) -> None:
    """Inputs and outputs; run after auto-completion."""
    for entry in proto.input:
        _Port(proto, "input", entry).check()
    for entry in proto.output:
        _Port(proto, "output", entry).check()
    for kind, entries in (("input", proto.input), ("output", proto.output)):
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise InvalidArgument(
                    f"model {kind} '{name}' is specified more than once for {proto.name}"
                )
    if not proto.output:
        raise InvalidArgument(
            "model configuration must contain at least one output, none were specified"
        )


class _Port:
    def __init__(self, proto: Any, kind: str, entry: Any) -> None:
        self._proto = proto
        self._kind = kind
        self._entry = entry

    def check(self) -> None:
        entry = self._entry
        self._demand(bool(entry.name), "must specify 'name'")
        self._demand(
            entry.data_type != pb.DataType.Value("TYPE_INVALID"),
            self._named("must specify 'data_type'"),
        )
        self._demand(len(entry.dims) > 0, self._named("must specify 'dims'"))
        self._demand(
            all(dim > 0 or dim == -1 for dim in entry.dims),
            self._named(
                "dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
            ),
        )
        if entry.HasField("reshape"):
            self._check_reshape()
        if self._kind == "input" and entry.format != pb.ModelInput.FORMAT_NONE:
            self._demand(len(entry.dims) == 3, "NHWC/NCHW require 3 dims")
        self._check_tensorrt_only()

    def _check_reshape(self) -> None:
        dims, shape = list(self._entry.dims), list(self._entry.reshape.shape)
        self._demand(
            bool(shape) or self._proto.max_batch_size > 0,
            self._named(
                "cannot have empty reshape for non-batching model as scalar tensors are not supported"
            ),
        )
        self._demand(
            all(dim > 0 or dim == -1 for dim in shape),
            self._named(
                "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
            ),
        )
        different_size = self._named("has different size for dims and reshape")
        # To Triton, of any size is a size like others; only between two of them it counts what is variable.
        self._demand((-1 in dims) == (-1 in shape), different_size)
        self._demand(
            dims.count(-1) == shape.count(-1),
            self._named("has different number of variable-size dimensions for dims and reshape"),
        )
        self._demand(_fixed_runs(dims) == _fixed_runs(shape), different_size)

    def _check_tensorrt_only(self) -> None:
        if self._proto.platform == TENSORRT:
            if self._entry.is_non_linear_format_io and len(self._entry.dims) != 3:
                raise InvalidArgument(
                    f"Non-linear IO format {self._kind} requires 3 dims for {self._proto.name}"
                )
            return
        if self._entry.is_shape_tensor:
            raise InvalidArgument(
                f"shape tensors are only supported for TensorRT platform for {self._proto.name}"
            )
        if self._entry.is_non_linear_format_io:
            raise InvalidArgument(
                "Non-linear IO format is only supported for the TensorRT platform "
                f"for {self._proto.name}"
            )

    def _named(self, rule: str) -> str:
        return f"'{self._entry.name}' {rule}"

    def _demand(self, holds: bool, rule: str) -> None:
        if not holds:
            raise InvalidArgument(f"model {self._kind} {rule} for {self._proto.name}")


def _fixed_runs(dims: Sequence[int]) -> list[int]:
    """Products of the runs of fixed dimensions between variable ones."""
    runs = [1]
    for dim in dims:
        if dim == -1:
            runs.append(1)
        else:
            runs[-1] *= dim
    return runs


def check_dynamic_batching(proto: Any) -> None:
    if not proto.HasField("dynamic_batching"):
        return
    batching, name = proto.dynamic_batching, proto.name
    for size in batching.preferred_batch_size:
        if size <= 0:
            raise InvalidArgument(f"dynamic batching preferred size must be positive for {name}")
        if size > proto.max_batch_size:
            raise InvalidArgument(
                f"dynamic batching preferred size must be <= max batch size for {name}"
            )
    levels = batching.priority_levels
    if levels > 0:
        if not 1 <= batching.default_priority_level <= levels:
            raise InvalidArgument(
                f"default priority level must be in range [1, {levels}] for {name}"
            )
        if any(not 1 <= level <= levels for level in batching.priority_queue_policy):
            raise InvalidArgument(
                f"priority queue policy must have priority level in range [1, {levels}] for {name}"
            )
    if batching.preserve_ordering:
        _check_ordering(batching, name)


def _check_ordering(batching: Any, name: str) -> None:
    if batching.priority_levels > 1:
        raise InvalidArgument(
            f"Only one priority level is allowed when 'preserve_ordering' is true for {name}"
        )
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    if any(
        policy.default_timeout_microseconds and policy.timeout_action == pb.ModelQueuePolicy.DELAY
        for policy in policies
    ):
        raise InvalidArgument(
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true "
            f"for {name}"
        )


def check_library(proto: Any) -> None:
    """`runtime` names the library of the backend: there is one of each, by its usual name."""
    library, usual = proto.runtime, f"libtriton_{proto.backend}.so"
    if ".." in library.split("/") or library.startswith("/"):
        raise InvalidArgument(f"backend library name '{library}' escapes backend directory")
    if library not in ("", usual):
        raise InvalidArgument(
            f"unable to find backend library '{library}' for model '{proto.name}'"
        )


def check_model_metrics(proto: Any) -> None:
    for control in proto.model_metrics.metric_control:
        if not control.HasField("metric_identifier"):
            raise InvalidArgument("metric control must specify 'metric_identifier'")
        family = control.metric_identifier.family
        if not family:
            raise InvalidArgument("metric identifier must specify non-empty 'family'")
        if family != CUSTOMIZABLE_FAMILY:
            logger.warning(
                "Metric family '%s' in 'metric_identifier' is not a customizable metric in Triton core.",
                family,
            )
        if not control.HasField("histogram_options"):
            raise InvalidArgument("metric control must specify 'histogram_options'")
        if not control.histogram_options.buckets:
            raise InvalidArgument("histogram options must specify non-empty 'buckets'")


def check_response_cache(proto: Any) -> None:
    """Answers that depend on more than their request can not be kept."""
    if not proto.response_cache.enable:
        return
    if proto.HasField("sequence_batching"):
        reason = "sequence batching scheduler"
    elif proto.model_transaction_policy.decoupled:
        reason = "'decoupled' transaction policy"
    else:
        return
    raise InvalidArgument(
        f"Response Cache does not currently support model {proto.name} with {reason}. Please disable "
        "the response cache."
    )


def check_instance_groups(
    proto: Any,
    usable_gpus: Sequence[int],
    *,
    gpu_support: bool = True,
    min_compute_capability: float = MIN_COMPUTE_CAPABILITY,
) -> None:
    """Run after `fill_instance_groups`; `gpu_support`: the backend as installed could use a GPU at all."""
    for group in proto.instance_group:
        problem = (
            _gpu_problem(group, usable_gpus, gpu_support, min_compute_capability)
            if group.kind == pb.ModelInstanceGroup.KIND_GPU
            else _kind_problem(group)
        ) or _profile_problem(proto, group)
        if problem:
            raise InvalidArgument(f"instance group {group.name} of model {proto.name} {problem}")


def _kind_problem(group: Any) -> str:
    kinds = pb.ModelInstanceGroup
    if group.kind in (kinds.KIND_MODEL, kinds.KIND_CPU) and group.gpus:
        return f"has kind {kinds.Kind.Name(group.kind)} but specifies one or more GPUs"
    return ""


def _gpu_problem(
    group: Any, usable_gpus: Sequence[int], gpu_support: bool, min_compute_capability: float
) -> str:
    if not gpu_support:
        return "has kind KIND_GPU but server does not support GPUs"
    if not usable_gpus:
        return "has kind KIND_GPU but no GPUs are available"
    for gpu in group.gpus:
        if gpu not in usable_gpus:
            usable = ", ".join(map(str, usable_gpus))
            return (
                f"specifies invalid or unsupported gpu id {gpu}. GPUs with at least the minimum required "
                f"CUDA compute compatibility of {min_compute_capability:g} are: {usable}"
            )
    return ""


def _profile_problem(proto: Any, group: Any) -> str:
    if group.profile and proto.platform != TENSORRT:
        return "specifies profile field which is only supported for TensorRT models"
    for profile in group.profile:
        if not (profile.isascii() and profile.isdecimal()):
            return (
                f"specifies invalid profile {profile}. The field should contain the string "
                "representation of a non-negative integer."
            )
    return ""
