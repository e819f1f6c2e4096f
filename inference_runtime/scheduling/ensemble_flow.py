"""How data moves through an ensemble: which step may run on what, and which outputs belong together. Pure.

A value has a *key*: () when there is one of it per request, (3,) when it came with the fourth response of a
decoupled step, (3, 0) when that led to the first response of another. A step with inputs of several depths
runs once per deepest key, with the shallower values used again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.spec.ensemble import EnsembleScheduling
from inference_runtime.spec.messages import Bytes

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor on its way. `overrides`: sequence parameters that a step gave to those who use it, and so on."""

    datatype: str
    shape: tuple[int, ...]
    data: Bytes
    overrides: Mapping[str, Any] | None = None


class EnsembleGraph:
    """What is the same for every request: depths, consumers."""

    def __init__(self, scheduling: EnsembleScheduling, decoupled: Sequence[bool]) -> None:
        self.scheduling = scheduling
        self.decoupled = tuple(decoupled)
        self.tensor_depth: dict[str, int] = {}
        self.step_depth: dict[int, int] = {}
        left = dict(enumerate(scheduling.steps))
        produced = {tensor for step in scheduling.steps for tensor in step.outputs.values()}
        while left:
            for index, step in list(left.items()):
                tensors = step.inputs.values()
                if any(each in produced and each not in self.tensor_depth for each in tensors):
                    continue
                depth = max(self.tensor_depth.get(each, 0) for each in tensors)
                self.step_depth[index] = depth
                after = depth + 1 if decoupled[index] else depth
                self.tensor_depth.update(dict.fromkeys(step.outputs.values(), after))
                del left[index]

    def depth(self, tensor: str) -> int:
        return self.tensor_depth.get(tensor, 0)


class EnsembleView:
    """The part of the graph that the outputs asked for depend on; shared by requests that ask the same."""

    def __init__(self, graph: EnsembleGraph, outputs: Sequence[str]) -> None:
        steps = graph.scheduling.steps
        self.graph = graph
        self.outputs = tuple(outputs)
        self.steps = graph.scheduling.needed(outputs)
        self.consumers: dict[str, list[int]] = {}
        for index in sorted(self.steps):
            for tensor in set(steps[index].inputs.values()):
                self.consumers.setdefault(tensor, []).append(index)
        self.depth = max((graph.depth(tensor) for tensor in outputs), default=0)
        wanted = {*self.consumers, *outputs}
        # Per step, the outputs of its model that somebody uses.
        self.asked = {
            index: tuple(name for name, tensor in steps[index].outputs.items() if tensor in wanted)
            for index in self.steps
        }
        # Per decoupled step, those that its responses lead to.
        self.behind = {
            index: self._behind(index) for index in sorted(self.steps) if graph.decoupled[index]
        }
        # Of these, those whose responses may have to wait, and can: not for the instances they come from.
        self.holdable = frozenset(
            index
            for index, behind in self.behind.items()
            if (behind or self._joined(index))
            and all(steps[each].model_name != steps[index].model_name for each in behind)
        )
        self.inner = frozenset(index for index in self.behind if graph.step_depth[index] > 0)
        # Per step, its inputs that there is one of for each time it runs.
        self.deepest = {
            index: tuple(
                tensor
                for tensor in set(steps[index].inputs.values())
                if graph.depth(tensor) == graph.step_depth[index]
            )
            for index in self.steps
        }

    def _behind(self, index: int) -> tuple[int, ...]:
        steps = self.graph.scheduling.steps
        found: list[int] = []
        tensors = list(steps[index].outputs.values())
        for tensor in tensors:  # it grows
            for consumer in self.consumers.get(tensor, ()):
                if consumer not in found:
                    found.append(consumer)
                    tensors.extend(steps[consumer].outputs.values())
        return tuple(found)

    def _joined(self, index: int) -> bool:
        """Whether the ensemble gives outputs of this step together with others."""
        own = set(self.graph.scheduling.steps[index].outputs.values())
        return not own.isdisjoint(self.outputs) and not own.issuperset(self.outputs)


@dataclass(slots=True)
class EnsembleFlow:
    """One request's values. Every call returns what became possible by it."""

    view: EnsembleView
    lacking_all: int = 0  # keys at which some of what a step, or the client, needs is not there yet
    _values: dict[str, dict[Key, Value | None]] = field(default_factory=dict)
    _waiting: dict[int, set[Key]] = field(default_factory=dict)  # by step: keys that lack a value
    _waiting_out: set[Key] = field(default_factory=set)
    _uses: dict[tuple[str, Key], int] = field(default_factory=dict)

    def put(
        self, values: Mapping[str, Value | None], key: Key
    ) -> tuple[list[tuple[int, Key]], list[Key]]:
        """Steps that can run now, and keys at which every output asked for is there. None: left out."""
        view = self.view
        touched: set[int] = set()
        shows = False
        for tensor, value in values.items():
            self._values.setdefault(tensor, {})[key] = value
            touched.update(view.consumers.get(tensor, ()))
            shows = shows or tensor in view.outputs
        able = [
            (index, ready)
            for index in sorted(touched)
            for ready in self._ready(
                view.graph.scheduling.steps[index].inputs.values(),
                self._waiting.setdefault(index, set()),
                key,
                view.graph.step_depth[index],
            )
        ]
        complete = self._ready(view.outputs, self._waiting_out, key, view.depth) if shows else []
        return able, complete

    def lacking(self, step: int) -> int:
        """At how many keys the step has some of what it needs and waits for the rest."""
        return len(self._waiting.get(step, ()))

    @property
    def lacking_outputs(self) -> int:
        return len(self._waiting_out)

    def value(self, tensor: str, key: Key) -> Value | None:
        return self._values[tensor][key[: self.view.graph.depth(tensor)]]

    def used(self, tensors: Collection[str], key: Key) -> None:
        """Lets go of values of one response of a decoupled step when all who want them have had them."""
        for tensor in tensors:
            if not key or self.view.graph.depth(tensor) != len(key):
                continue
            left = self._uses.get((tensor, key), self._wanted(tensor)) - 1
            if left:
                self._uses[tensor, key] = left
            else:
                self._uses.pop((tensor, key), None)
                self._values[tensor].pop(key, None)

    def _wanted(self, tensor: str) -> int:
        """How often a value is used; one that goes on to deeper keys is kept to the end."""
        view = self.view
        depth = view.graph.depth(tensor)
        consumers = view.consumers.get(tensor, ())
        if any(view.graph.step_depth[index] > depth for index in consumers) or (
            tensor in view.outputs and view.depth > depth
        ):
            return 1 << 62
        return len(consumers) + (tensor in view.outputs)

    def _ready(
        self, tensors: Collection[str], waiting: set[Key], key: Key, depth: int
    ) -> list[Key]:
        before = len(waiting)
        if len(key) == depth:
            waiting.add(key)
            candidates = [key]
        else:
            candidates = sorted(each for each in waiting if each[: len(key)] == key)
        able = [each for each in candidates if self._has_all(tensors, each)]
        waiting.difference_update(able)
        self.lacking_all += len(waiting) - before
        return able

    def _has_all(self, tensors: Collection[str], key: Key) -> bool:
        depth = self.view.graph.depth
        return all(key[: depth(each)] in self._values.get(each, {}) for each in tensors)
