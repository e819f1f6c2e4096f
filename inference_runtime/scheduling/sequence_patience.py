"""When sequences end by themselves: idle too long in a slot, or waiting too long for one. Pure."""

from dataclasses import dataclass, field

from inference_runtime.scheduling.sequence_table import LiveSequence

# A pass over the sequences with a limit costs about as much each: wait ten times as long before the next.
_PASS_PAUSE_NS = 1_000_000
_PAUSE_PER_SEQUENCE_NS = 2_000


@dataclass(slots=True)
class Impatient:
    idle: list[LiveSequence] = field(default_factory=list)
    late: list[LiveSequence] = field(default_factory=list)  # may hold something that is too late


class Patience:
    def __init__(self, max_idle_ns: int) -> None:
        self._max_idle_ns = max_idle_ns
        self._resting: dict[LiveSequence, int] = {}  # since when; longest first
        self._limited: dict[LiveSequence, None] = {}
        self._next_limit_ns = 0

    def rest(self, sequence: LiveSequence, now_ns: int) -> None:
        """From now on it is idle."""
        self._resting.pop(sequence, None)
        self._resting[sequence] = now_ns

    def wake(self, sequence: LiveSequence) -> None:
        self._resting.pop(sequence, None)

    def limit(self, sequence: LiveSequence, at_ns: int) -> None:
        """Something of it may wait until then and no longer."""
        self._limited[sequence] = None
        if not self._next_limit_ns or at_ns < self._next_limit_ns:
            self._next_limit_ns = at_ns

    def forget(self, sequence: LiveSequence) -> None:
        self._resting.pop(sequence, None)
        self._limited.pop(sequence, None)

    def next_ns(self) -> int:
        """Nothing is due before; 0: nothing ever is."""
        first = next(iter(self._resting.values()), None)
        moments = [self._next_limit_ns] if self._next_limit_ns else []
        if first is not None:
            moments.append(first + self._max_idle_ns)
        return min(moments, default=0)

    def due(self, now_ns: int) -> Impatient:
        """Who has been idle for too long; and who is to be looked at, for whom `limit` is to be called anew."""
        impatient = Impatient()
        for sequence, since_ns in self._resting.items():
            if now_ns - since_ns < self._max_idle_ns:
                break
            impatient.idle.append(sequence)
        for sequence in impatient.idle:
            del self._resting[sequence]
        if self._next_limit_ns and now_ns >= self._next_limit_ns:
            impatient.late = list(self._limited)
            self._limited.clear()
            self._next_limit_ns = 0
        return impatient

    def pause_ns(self) -> int:
        """How long at least until the next look."""
        return _PASS_PAUSE_NS + len(self._limited) * _PAUSE_PER_SEQUENCE_NS
