"""A batch of a model with sequences: rows that get an answer, and filler rows between them that get none."""

from collections.abc import Sequence

from inference_runtime.backends.base import Array
from inference_runtime.backends.model_call import Home
from inference_runtime.instances.batch import Batch
from inference_runtime.spec.messages import InferRequest


class ImplicitState:
    """What the steps of one sequence have left so far. Written by the step that runs, one at a time."""

    __slots__ = ("home", "values")

    def __init__(self) -> None:
        self.home = Home()  # of what the model keeps itself
        self.values: tuple[Array, ...] | None = None  # by config state, one row each; None: initial


class SequenceBatch(Batch):
    """`requests` are the rows at `places`; a filler's request only lends its data and is never settled."""

    __slots__ = ("all_rows", "places", "states")

    def __init__(
        self,
        rows: Sequence[InferRequest],
        places: tuple[int, ...],
        states: Sequence[ImplicitState],
    ) -> None:
        super().__init__([rows[place] for place in places], len(rows))
        self.places = places
        self.states = states  # by entry of `requests`
        self.all_rows = self if len(places) == len(rows) else Batch(rows, len(rows))
