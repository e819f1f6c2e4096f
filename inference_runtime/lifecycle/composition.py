"""Which ensembles stand on which models: the graph that loads and unloads have to respect. Event loop only."""

from collections.abc import Awaitable, Callable, Iterable

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.ensemble_checks import ComposingModels, check_composition
from inference_runtime.lifecycle.registry import ModelRegistry
from inference_runtime.spec.ensemble import EnsembleScheduling

# The steps of a model's files, () for one that is no ensemble or can not be read.
ReadSteps = Callable[[str], Awaitable[tuple[str, ...]]]


class Composition:
    """`automatic`: models that were loaded only because an ensemble needs them. `orphans`: ensembles out
    of service because a model of theirs is, which come back with it."""

    def __init__(self, registry: ModelRegistry) -> None:
        self._registry = registry
        self.automatic: set[str] = set()
        self.orphans: set[str] = set()

    def steps_of(self, name: str) -> tuple[str, ...]:
        """Models of the ensemble that serves under this name; () for another model."""
        serving = self._registry.serving(name).values()
        names = (
            step
            for loaded in serving
            if loaded.config.ensemble is not None
            for step in loaded.config.ensemble.model_names
        )
        return tuple(dict.fromkeys(names))

    def users(self, name: str) -> list[str]:
        """Ensembles in service with a step of this model."""
        return [each for each in self._registry.names() if name in self.steps_of(each)]

    def unused(self, names: Iterable[str]) -> list[str]:
        """Those that nobody asked for by name and no ensemble needs any more."""
        return [each for each in names if each in self.automatic and not self.users(each)]

    def outermost_first(self) -> list[list[str]]:
        """Names in service, in groups: who asks others comes before those it asks."""
        left = {name for name in self._registry.names() if self._registry.serving(name)}
        groups: list[list[str]] = []
        while left:
            used = {step for name in left for step in self.steps_of(name)}
            free = sorted(left - used) or sorted(left)
            ensembles = [name for name in free if self.steps_of(name)]
            # Models that answer request by request may ask others too, in ways nobody knows before.
            asking = [name for name in free if name not in ensembles and self._asks(name)]
            group = ensembles or asking or free
            groups.append(group)
            left.difference_update(group)
        return groups

    def _asks(self, name: str) -> bool:
        return any(
            instance.per_request
            for loaded in self._registry.serving(name).values()
            for instance in loaded.instances
        )

    async def missing(self, name: str, steps: tuple[str, ...], read: ReadSteps) -> "Missing":
        """What has to be loaded before an ensemble of these steps can be."""
        found = Missing()
        await self._walk(steps, (name,), read, found)
        return found

    async def _walk(
        self, steps: tuple[str, ...], chain: tuple[str, ...], read: ReadSteps, found: "Missing"
    ) -> None:
        for step in steps:
            if step in chain:
                circle = " -> ".join((*chain, step))
                found.circle = f"circular dependency between ensembles: {circle}"
                return
            serving = bool(self._registry.serving(step))
            below = self.steps_of(step) if serving else await read(step)
            await self._walk(below, (*chain, step), read, found)
            if not serving and step not in found.names:
                found.names.append(step)

    def composing(self, scheduling: EnsembleScheduling, missing: "Missing") -> ComposingModels:
        names = scheduling.model_names
        return ComposingModels(
            serving={
                name: {
                    number: loaded.config for number, loaded in self._registry.serving(name).items()
                }
                for name in names
            },
            unknown=tuple(name for name in names if name in missing.unknown),
            failed=missing.failed,
            circle=missing.circle,
        )

    def still_holds(self, name: str) -> bool:
        """Whether an ensemble in service fits the models that serve now as it did when it was loaded."""
        for loaded in self._registry.serving(name).values():
            if loaded.config.ensemble is None:
                continue
            try:
                flags = check_composition(
                    loaded.config, self.composing(loaded.config.ensemble, Missing())
                )
            except RuntimeFault:
                return False
            if flags != loaded.decoupled_steps:
                return False
        return True


class Missing:
    """Models an ensemble needs that do not serve, and what came of loading them."""

    def __init__(self) -> None:
        self.names: list[str] = []  # in the order in which they have to be loaded
        self.unknown: set[str] = set()
        self.failed: dict[str, str] = {}
        self.circle = ""
