"""Where a batch runs: on the event loop when that is cheaper than handing it to a thread, else on one.

Decided per model and per size of batch (sizes are grouped by powers of two) from measured run times.
The size is the number of rows, and where a model's shapes are free also the bytes of its inputs. A size begins in the thread. It moves to the loop when the *quickest* of some runs is under the limit,
because a thread's own time includes waits for the interpreter lock; it moves back when the *average*
on the loop is well above the limit, and each such mistake makes the next try twice as long in coming;
one run that stalls the loop is enough to move it back for long.
Pure: the caller measures.
"""

import enum

INLINE_BELOW_NS = 300_000
# With several instances, threads can compute side by side; only what is far cheaper than a hop stays inline.
INLINE_FLOOR_NS = 100_000
LEAVE_FACTOR = 1.5
FIRST_SAMPLES = 8
MOST_SAMPLES = 4096
# No wait for a processor takes that long: the model itself can, and everybody else has waited for it.
STALL_NS = 200_000_000
_SMOOTHING = 8  # an average over about as many runs
_OUTLIER = 4  # times the leaving limit is the most that one run counts


_Step = tuple[int, int]  # powers of two: of the input bytes (0: not looked at), and of the rows


class ExecutionPlace(enum.Enum):
    """The values of the config parameter EXECUTION_PLACEMENT."""

    AUTO = "auto"
    INLINE = "inline"
    THREAD = "thread"


class SizeTimes:
    """What is known about batches of one size; `inline`: they run on the event loop."""

    __slots__ = ("average_ns", "inline", "left", "quickest_ns", "samples_wanted")

    def __init__(self) -> None:
        self.inline = False
        self.average_ns = 0.0  # on the loop
        self.quickest_ns = 0  # in the thread, of the runs since the last decision
        self.samples_wanted = FIRST_SAMPLES
        self.left = FIRST_SAMPLES


class ExecutionPlacement:
    """`by_bytes`: rows alone do not say how much work a batch is, so callers pass the bytes of its inputs."""

    def __init__(
        self,
        place: ExecutionPlace = ExecutionPlace.AUTO,
        *,
        instances: int = 1,
        by_bytes: bool = False,
    ) -> None:
        self._place = place
        self.by_bytes = by_bytes and place is ExecutionPlace.AUTO
        self._enter_ns = max(INLINE_BELOW_NS // max(instances, 1), INLINE_FLOOR_NS)
        self._leave_ns = self._enter_ns * LEAVE_FACTOR
        self._sizes: dict[_Step, SizeTimes] = {}

    def inline(self, rows: int, input_bytes: int = 0) -> bool:
        """Whether a batch of that many rows may run on the event loop now."""
        if self._place is not ExecutionPlace.AUTO:
            return self._place is ExecutionPlace.INLINE
        step = (input_bytes.bit_length(), rows.bit_length())
        size = self._sizes.get(step)
        return size.inline if size is not None else self._foreseen(step)

    def measured(self, rows: int, took_ns: int, *, inline: bool, input_bytes: int = 0) -> None:
        if self._place is not ExecutionPlace.AUTO:
            return
        step = (input_bytes.bit_length(), rows.bit_length())
        size = self._sizes.get(step)
        if size is None:
            size = self._sizes[step] = SizeTimes()
            if inline:
                self._enter(size, took_ns)
                return
        if inline and size.inline:
            self._measured_inline(size, took_ns)
        elif not inline and not size.inline:
            self._measured_in_thread(size, took_ns)

    def _measured_inline(self, size: SizeTimes, took_ns: int) -> None:
        counted = min(took_ns, self._leave_ns * _OUTLIER)
        size.average_ns += (counted - size.average_ns) / _SMOOTHING
        if took_ns >= STALL_NS:
            self._leave(size, MOST_SAMPLES)
        elif size.average_ns > self._leave_ns:
            self._leave(size, min(size.samples_wanted * 2, MOST_SAMPLES))

    def _leave(self, size: SizeTimes, samples_wanted: int) -> None:
        size.inline = False
        size.quickest_ns = 0
        size.samples_wanted = size.left = samples_wanted

    def _measured_in_thread(self, size: SizeTimes, took_ns: int) -> None:
        if size.quickest_ns == 0 or took_ns < size.quickest_ns:
            size.quickest_ns = took_ns
        size.left -= 1
        if size.left > 0:
            return
        if size.quickest_ns < self._enter_ns:
            self._enter(size, size.quickest_ns)
        size.left = size.samples_wanted
        size.quickest_ns = 0

    def _enter(self, size: SizeTimes, took_ns: int) -> None:
        size.inline = True
        size.average_ns = min(float(took_ns), self._enter_ns)

    def _foreseen(self, step: _Step) -> bool:
        """A size never seen: twice the rows are taken to need twice the time, fewer rows no more."""
        for known in sorted(self._sizes, reverse=True):
            size = self._sizes[known]
            if size.inline:
                return size.average_ns * _growth(known, step) < self._enter_ns
            if known[0] <= step[0] and known[1] <= step[1]:
                return False
        return False


def _growth(known: _Step, step: _Step) -> int:
    """Longer rows may cost the square of their length, as attention does."""
    rows = max(step[1] - known[1], 0)
    length = max(step[0] - known[0] - rows, 0)
    return 1 << (rows + 2 * length)
