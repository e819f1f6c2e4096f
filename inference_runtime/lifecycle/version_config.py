"""From a polled model and a version number to the complete, checked config its instances are made from. Blocking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inference_runtime import pb
from inference_runtime.backends.base import (
    ArtifactDescription,
    BackendFactory,
    BackendServices,
    ConfigCompleter,
    ModelArtifact,
)
from inference_runtime.backends.isolation.backend import asks_for_isolation, isolated
from inference_runtime.backends.registry import backend_named
from inference_runtime.errors import InvalidArgument
from inference_runtime.lifecycle.config_completion import (
    DEFAULT_MAX_BATCH_SIZE,
    check_agreement,
    complete,
)
from inference_runtime.lifecycle.sequence_agreement import (
    check_injected,
    check_per_request,
    with_initial_states,
)
from inference_runtime.lifecycle.warm_up import WarmUpSample, read_samples
from inference_runtime.repository.repository import PolledModel
from inference_runtime.spec.config_defaults import (
    fill_instance_groups,
    fill_scheduling,
)
from inference_runtime.spec.config_rules import (
    MIN_COMPUTE_CAPABILITY,
    check_dynamic_batching,
    check_instance_groups,
    check_library,
    check_model_metrics,
    check_ports,
    check_response_cache,
)
from inference_runtime.spec.host_policy import HostPolicy, policy_name
from inference_runtime.spec.layout import OutsideRoot, resolve_inside
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig, read
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.spec.ragged import check_ragged
from inference_runtime.spec.sequence_rules import (
    check_sequence_batching,
    fill_sequence_batching,
)


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What the command line says about backends."""

    auto_complete: bool = True
    by_backend: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # "": all of them
    usable_gpus: tuple[int, ...] = ()
    host_policies: Mapping[str, HostPolicy] = field(default_factory=dict)
    min_compute_capability: float = MIN_COMPUTE_CAPABILITY  # of `usable_gpus`
    compute_capabilities: Mapping[int, float] = field(default_factory=dict)  # by GPU that says it

    def host_policy(self, spec: InstanceSpec) -> HostPolicy | None:
        return self.host_policies.get(policy_name(spec.host_policy, spec.kind, spec.gpu))

    def config_for(self, spec: InstanceSpec, config: ModelConfig) -> ModelConfig:
        """The config with the file that `cc_model_filenames` has for the GPU of an instance, if any."""
        able = None if spec.gpu is None else self.compute_capabilities.get(spec.gpu)
        if able is None or f"{able:.1f}" not in config.proto.cc_model_filenames:
            return config
        filename = config.proto.cc_model_filenames[f"{able:.1f}"]
        return replace(config, default_model_filename=filename)

    def options(self, backend: str) -> dict[str, str]:
        return {**self.by_backend.get("", {}), **self.by_backend.get(backend, {})}


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    identity: str
    artifact: ModelArtifact
    config: ModelConfig
    factory: BackendFactory
    options: Mapping[str, str]
    labels: Mapping[str, tuple[str, ...]]
    samples: Sequence[WarmUpSample] = ()


def prepare_version(
    polled: PolledModel,
    version: int,
    settings: BackendSettings,
    services: BackendServices | None = None,
) -> PreparedVersion:
    """Raises a RuntimeFault that says what is wrong with the config or the file.

    Without `services` no model is asked about its config.
    """
    proto = pb.ModelConfig()
    proto.CopyFrom(polled.proto)
    factory = isolated(proto, backend_named(proto.backend), services)
    check_library(proto)
    options = settings.options(proto.backend)
    artifact = artifact_of(polled, version)
    if settings.auto_complete and services is not None and isinstance(factory, ConfigCompleter):
        proto = factory.complete_config(artifact, proto, options, services)
    description = factory.describe(artifact, proto, options)
    if settings.auto_complete and description is not None:
        complete(proto, description, _default_max_batch_size(options))
    _settle(proto, factory, settings, description)
    config = with_initial_states(read(proto), polled.directory)
    if description is not None:
        check_injected(config, description)
    if factory.per_request:
        check_per_request(config)
    return PreparedVersion(
        polled.name,
        artifact,
        config,
        factory,
        options,
        label_lines(polled, proto),
        read_samples(config, polled.directory),
    )


def asks_a_process(proto: Any) -> bool:
    """Whether `prepare_version` waits for a process of the model's, which may never answer."""
    return proto.backend == "python" or asks_for_isolation(proto)


def artifact_of(polled: PolledModel, version: int) -> ModelArtifact:
    directory = polled.directory / str(version)
    return ModelArtifact(bare_name(polled.name), version, polled.directory, directory)


def _settle(
    proto: Any,
    factory: BackendFactory,
    settings: BackendSettings,
    description: ArtifactDescription | None,
) -> None:
    supported = factory.gpu_support()
    gpus = settings.usable_gpus if supported else ()
    fill_scheduling(proto)
    fill_sequence_batching(proto)
    fill_instance_groups(proto, gpus)
    check_ports(proto)
    check_dynamic_batching(proto)
    check_response_cache(proto)
    check_model_metrics(proto)
    check_sequence_batching(proto)
    check_ragged(proto)
    check_instance_groups(
        proto,
        gpus,
        gpu_support=supported,
        min_compute_capability=settings.min_compute_capability,
    )
    if description is not None:
        check_agreement(proto, description)


def _default_max_batch_size(options: Mapping[str, str]) -> int:
    text = options.get("default-max-batch-size", str(DEFAULT_MAX_BATCH_SIZE))
    if not text.isdecimal():
        raise InvalidArgument(
            f"default-max-batch-size must be a non-negative integer, got '{text}'"
        )
    return int(text)


def label_lines(polled: PolledModel, proto: Any) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    for output in proto.output:
        if not output.label_filename:
            continue
        try:
            path = resolve_inside(polled.directory, output.label_filename)
            # Not splitlines, to which a dozen other characters end a line: the number of a line is an index.
            text = path.read_text(encoding="utf-8").removesuffix("\n")
            labels[output.name] = tuple(text.split("\n"))
        except (OutsideRoot, OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(
                f"label file '{output.label_filename}' of output '{output.name}' of model "
                f"'{proto.name}' can not be read: {error}"
            ) from error
    return labels
