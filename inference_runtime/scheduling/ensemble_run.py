"""One request of an ensemble while it lasts, and one request that it makes to a step's model."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.scheduling.ensemble_backpressure import RunBackpressure
from inference_runtime.scheduling.ensemble_flow import EnsembleFlow, Key
from inference_runtime.spec.messages import InferRequest, InferResponse

Overrides = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Run:
    """One request of the ensemble."""

    request: InferRequest
    flow: EnsembleFlow
    started_ns: int
    compute_ns: int = 0  # of all steps so far
    backpressure: RunBackpressure | None = None  # None: no step answers more than once
    calls: set[InferRequest] = field(default_factory=set)  # steps under way
    ready: deque[tuple[int, Key]] = field(default_factory=deque)
    let_in: deque[tuple[int, Key]] = field(default_factory=deque)  # had their turn at the gate
    gated: int = 0  # steps that wait for their turn at `max_inflight_requests`
    fault: RuntimeFault | None = None
    outputs: InferResponse | None = None
    pumping: bool = False

    def next(self) -> tuple[int, Key] | None:
        """A step that can begin now."""
        if self.fault is not None:
            self.ready.clear()
            self.let_in.clear()
            return None
        if self.let_in:
            return self.let_in.popleft()
        backpressure = self.backpressure
        while self.ready:
            entry = self.ready.popleft()
            if backpressure is None or not backpressure.put_off(*entry):
                return entry
        return backpressure.let_in() if backpressure is not None else None


@dataclass(slots=True, eq=False)
class Call:
    """Context of a step's request."""

    run: Run
    step: int
    key: Key
    overrides: Overrides  # of its sequence parameters, by what it was made from
    responses: int = 0

    @property
    def parent(self) -> InferRequest:
        return self.run.request
