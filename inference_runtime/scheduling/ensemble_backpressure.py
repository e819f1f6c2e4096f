"""Back-pressure inside one request of an ensemble: decoupled steps wait for the steps behind them.

A response *waits* until every step it leads to has ended. A step is held back by what waits behind it, and
nothing behind it is ever held back by it, so the last steps always go on. What that can not see, a step that
needs the very instance or slot its producer occupies, shows by everything standing still: then a portion is let
through, and in the end the bound ends the request.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from inference_runtime.scheduling.ensemble_flow import EnsembleFlow, EnsembleView, Key
from inference_runtime.spec.backpressure import Backpressure

# The request ends when more than this waits for one of its steps: its producer could not be held back.
MOST_WAITING = 4096
# So many responses may wait before their producer is held back; a large one counts as several.
HELD_ABOVE = 1024
BYTES_OF_ONE: Final = 64 << 10
PORTION: Final = 256
# A decoupled step behind another one runs many times over: fewer responses each, and few side by side.
INNER_PORTION: Final = 64
MOST_INNER_CALLS: Final = 16
STILL_SECONDS = 5.0


class RunBackpressure:
    """One request's. `go_on()` is called when steps that were put off may begin."""

    def __init__(
        self,
        view: EnsembleView,
        flow: EnsembleFlow,
        outer: Backpressure | None,
        go_on: Callable[[], None],
    ) -> None:
        self._view = view
        self._flow = flow
        self._outer = outer
        self._go_on = go_on
        self._producers: dict[int, Backpressure] = {}
        self._held: set[int] = set()
        # By step: what waits for it or in it, as one each and by weight; what has begun; what was put off.
        self._counts = dict.fromkeys(view.steps, 0)
        self._weights = dict.fromkeys(view.steps, 0)
        self._calls = dict.fromkeys(view.steps, 0)
        self._waiting = 0  # all weights
        self._put_off: dict[int, deque[Key]] = {}
        self._heavy: dict[tuple[int, Key], int] = {}
        self._off = False
        self._ends = 0
        self._ends_seen = 0
        self._timer: asyncio.TimerHandle | None = None

    def of(self, step: int) -> Backpressure | None:
        """For a request to this step; None: what it gives never waits."""
        found = self._producers.get(step)
        if found is not None or self._off or step not in self._view.behind:
            return found
        if step in self._view.holdable or self._outer is not None:
            portion = INNER_PORTION if step in self._view.inner else PORTION
            found = self._producers[step] = Backpressure(portion, self._outer)
        return found

    def ready(self, step: int, key: Key) -> None:
        """All that the step needs at this key is there."""
        size = 0
        for tensor in self._view.deepest[step]:
            value = self._flow.value(tensor, key)
            if value is not None:
                size += len(value.data)
        weight = 1
        if size >= BYTES_OF_ONE:
            weight = self._heavy[step, key] = 1 + size // BYTES_OF_ONE
        self._counts[step] += 1
        self._weights[step] += weight
        self._waiting += weight

    def put_off(self, step: int, key: Key) -> bool:
        """Whether it has to wait until enough others of its kind have ended; else it is taken to begin now."""
        if step in self._view.inner and (self._put_off.get(step) or not self._admits(step)):
            self._put_off.setdefault(step, deque()).append(key)
            return True
        self._calls[step] += 1
        return False

    def let_in(self) -> tuple[int, Key] | None:
        """One that was put off and may begin now."""
        for step, keys in self._put_off.items():
            if keys and self._admits(step):
                self._calls[step] += 1
                return step, keys.popleft()
        return None

    def ended(self, step: int, key: Key) -> None:
        self._ends += 1
        self._counts[step] -= 1
        self._calls[step] -= 1
        weight = self._heavy.pop((step, key), 1) if self._heavy else 1
        self._weights[step] -= weight
        self._waiting -= weight

    def too_many(self, step: int) -> bool:
        """Whether more waits behind the step than it may, held back or not."""
        if self._waiting + self._flow.lacking_all <= MOST_WAITING:
            return False
        return self._flow.lacking_outputs > MOST_WAITING or any(
            self._counts[each] + self._flow.lacking(each) > MOST_WAITING
            for each in self._view.behind[step]
        )

    def look(self) -> None:
        """Something has arrived, or has ended."""
        if self._off or (not self._held and self._waiting + self._flow.lacking_all <= HELD_ABOVE):
            return
        joining = self._flow.lacking_outputs
        for step, producer in self._producers.items():
            if step not in self._view.holdable:
                continue
            behind = self._view.behind[step]
            waiting = joining + sum(
                [self._weights[each] + self._flow.lacking(each) for each in behind]
            )
            if waiting > HELD_ABOVE:
                self._hold(step, producer)
            elif step in self._held:
                self._held.discard(step)
                producer.release()
        if self._held and self._only_held():
            # What they wait for can come of themselves only.
            self._off = True
            self._release_all()

    def leave(self) -> None:
        """The request is over, or nothing that its steps still give is used."""
        self._off = True
        self._held.clear()
        self._put_off.clear()
        for producer in self._producers.values():
            producer.leave()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admits(self, step: int) -> bool:
        return self._off or (self._calls[step] < MOST_INNER_CALLS and step not in self._held)

    def _only_held(self) -> bool:
        for step, count in self._counts.items():
            put_off = len(self._put_off.get(step, ()))
            if count > put_off and (step not in self._held or count > put_off + self._calls[step]):
                return False
        return True

    def _hold(self, step: int, producer: Backpressure) -> None:
        self._held.add(step)
        producer.hold()
        if self._timer is None:
            self._watch()

    def _release_all(self) -> None:
        for step in self._held:
            self._producers[step].release()
        self._held.clear()

    def _watch(self) -> None:
        self._ends_seen = self._ends
        self._timer = asyncio.get_running_loop().call_later(STILL_SECONDS, self._look_for_progress)

    def _look_for_progress(self) -> None:
        self._timer = None
        if not self._held:
            return
        if self._ends == self._ends_seen:
            self._release_all()
            self._go_on()
        self._watch()
