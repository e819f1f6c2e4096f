"""`max_inflight_requests`: how many requests to a step may be under way, over all requests of the ensemble."""

from collections import deque
from collections.abc import Callable

from inference_runtime.scheduling.ensemble_flow import Key
from inference_runtime.scheduling.ensemble_run import Run


class EnsembleGates:
    """`go_on(run)` is called for one that has something in `run.let_in` now. Bound 0: everybody goes in."""

    def __init__(self, steps: int, bound: int, go_on: Callable[[Run], None]) -> None:
        self._bound = bound
        self._go_on = go_on
        self._active = [0] * steps
        self._gates: list[deque[tuple[Run, Key]]] = [deque() for _ in range(steps)]
        self._freed: deque[int] = deque()  # steps with room for one more
        self._releasing = False

    def enter(self, run: Run, index: int, key: Key) -> bool:
        """Whether it goes in now; else it waits."""
        if self._bound and self._active[index] >= self._bound:
            run.gated += 1
            self._gates[index].append((run, key))
            return False
        self._active[index] += 1
        return True

    def leave(self, index: int) -> None:
        """A request of the step has ended: those that wait for that may begin."""
        self._active[index] -= 1
        if not self._gates[index]:
            return
        self._freed.append(index)
        if self._releasing:
            return  # one level deep: those let in may end at once, and hundreds may wait
        self._releasing = True
        try:
            while self._freed:
                self._let_in(self._freed.popleft())
        finally:
            self._releasing = False

    def forget(self, run: Run) -> None:
        """It has failed: what it has waiting begins no more."""
        if run.gated:
            run.gated = 0
            for index, gate in enumerate(self._gates):
                self._gates[index] = deque(entry for entry in gate if entry[0] is not run)

    def _let_in(self, index: int) -> None:
        # The gate is looked up each time: a request that fails takes what it had there with it.
        while self._gates[index] and self._active[index] < self._bound:
            run, key = self._gates[index].popleft()
            run.gated -= 1
            if run.fault is None:
                run.let_in.append((index, key))
            self._go_on(run)
