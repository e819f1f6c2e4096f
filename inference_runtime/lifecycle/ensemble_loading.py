"""Makes a version of an ensemble: no files, no instances, only a config that fits the models it names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference_runtime import pb
from inference_runtime.lifecycle.ensemble_checks import ComposingModels, check_composition
from inference_runtime.lifecycle.loaded_version import LoadedVersion
from inference_runtime.repository.repository import PolledModel
from inference_runtime.scheduling.ensemble_scheduler import EnsembleScheduler
from inference_runtime.scheduling.scheduler import SharedParts, with_cache
from inference_runtime.spec.config_rules import (
    check_model_metrics,
    check_ports,
    check_response_cache,
)
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.model_config import ModelConfig, read
from inference_runtime.telemetry.registry import StatsRegistry


def prepare_ensemble(
    polled: PolledModel, composing: ComposingModels
) -> tuple[ModelConfig, tuple[bool, ...]]:
    """The config, and by step whether its model is decoupled; raises InvalidArgument."""
    proto = pb.ModelConfig()
    proto.CopyFrom(polled.proto)
    check_ports(proto)
    decoupled = check_composition(_read(proto, polled), composing)
    if any(decoupled):
        proto.model_transaction_policy.decoupled = True
    check_response_cache(proto)
    check_model_metrics(proto)
    return _read(proto, polled), decoupled


def _read(proto: pb.ModelConfig, polled: PolledModel) -> ModelConfig:
    """With the steps as they were found in the repositories: a name may mean several models."""
    return replace(read(proto), ensemble=polled.ensemble)


@dataclass(frozen=True, slots=True)
class EnsembleLoader:
    stats: StatsRegistry
    inference: InferencePort
    shared: SharedParts

    def load(
        self,
        polled: PolledModel,
        version: int,
        composing: ComposingModels,
        labels: Mapping[str, tuple[str, ...]],
    ) -> LoadedVersion:
        """A version that is ready to serve; event loop only. Raises InvalidArgument."""
        config, decoupled = prepare_ensemble(polled, composing)
        stats = self.stats.prepare(model=polled.name, version=version, config=config)
        ensemble = EnsembleScheduler(
            config, decoupled=decoupled, version=version, stats=stats, inference=self.inference
        )
        scheduler = with_cache(ensemble, config, stats, self.shared.cache)
        stats.gauges = scheduler.gauges
        return LoadedVersion(
            name=polled.name,
            number=version,
            config=config,
            scheduler=scheduler,
            stats=stats,
            labels=labels,
            decoupled_steps=decoupled,
        )
