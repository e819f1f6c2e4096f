"""An ensemble's steps as the config has them, and what follows from them alone. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

LATEST = -1


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """`inputs` and `outputs`: name in the step's model → ensemble tensor."""

    model_name: str
    version: int  # LATEST, or the one it must be
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EnsembleScheduling:
    steps: tuple[EnsembleStep, ...]
    max_inflight: int  # requests of one step at a time, over all requests of the ensemble; 0: any

    @property
    def model_names(self) -> tuple[str, ...]:
        """Of all steps, each once, in the order of the steps."""
        return tuple(dict.fromkeys(step.model_name for step in self.steps))

    def needed(self, outputs: Collection[str]) -> frozenset[int]:
        """The steps that some of `outputs` depend on."""
        producers = {
            tensor: index
            for index, step in enumerate(self.steps)
            for tensor in step.outputs.values()
        }
        found: set[int] = set()
        wanted = list(outputs)
        while wanted:
            index = producers.get(wanted.pop())
            if index is not None and index not in found:
                found.add(index)
                wanted.extend(self.steps[index].inputs.values())
        return frozenset(found)


def read_ensemble(proto: Any) -> EnsembleScheduling | None:
    """None when the config is not an ensemble's."""
    if not proto.HasField("ensemble_scheduling"):
        return None
    scheduling = proto.ensemble_scheduling
    return EnsembleScheduling(
        steps=tuple(
            EnsembleStep(
                step.model_name,
                step.model_version,
                dict(step.input_map),
                dict(step.output_map),
            )
            for step in scheduling.step
        ),
        max_inflight=getattr(scheduling, "max_inflight_requests", 0),
    )
