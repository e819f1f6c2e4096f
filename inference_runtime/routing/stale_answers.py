"""Ensembles keep whole answers: what one of their models answered before it changed is no answer any more."""

from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.scheduling.caching_scheduler import CachingScheduler


def forget_answers_over(registry: ModelRegistry, model: str) -> None:
    """Of every ensemble in service with a step of this model, or with one that has one."""
    for name in registry.names():
        for loaded in registry.serving(name).values():
            ensemble = loaded.config.ensemble
            if ensemble is None or model not in ensemble.model_names:
                continue
            if isinstance(loaded.scheduler, CachingScheduler):
                loaded.scheduler.forget()
            forget_answers_over(registry, name)
