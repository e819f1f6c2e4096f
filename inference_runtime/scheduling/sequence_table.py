"""Which sequences there are, which slot each holds, and who waits for one. Pure.

A lane is an instance; slot n is row n // lanes of lane n % lanes, and the lowest free one is taken
first, so sequences spread over the instances. What waits here holds at least one request, so the front
ends' bounds on requests are bounds on the backlog too.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from inference_runtime.instances.sequence_batch import ImplicitState
from inference_runtime.spec.messages import InferRequest

SequenceId = int | str
NO_LANE = -1


class LiveSequence:
    """Open from its START; closed when its id means nothing any more; gone with its last request."""

    __slots__ = (
        "busy", "closed", "expires_ns", "gone", "held", "id", "lane", "queue", "ready", "ready_ns",
        "row", "state",
    )  # fmt: skip

    def __init__(self, id_: SequenceId) -> None:
        self.id = id_
        self.queue: deque[InferRequest] = deque()  # not started
        self.busy = False  # one of its requests is being executed
        self.held = 0  # answers of its requests that wait for their turn
        self.closed = False
        self.gone = False
        self.lane = NO_LANE  # NO_LANE: in the backlog, or past its slot
        self.row = 0
        self.expires_ns = 0  # until when it may wait in the backlog; 0: for ever
        self.ready = False  # its batcher has it: the only writer of these two
        self.ready_ns = 0  # since when
        self.state = ImplicitState()

    @property
    def begun(self) -> bool:
        """Its next request goes on with what those before have left."""
        return not (self.queue and self.queue[0].head.sequence_start)


class SequenceTable:
    def __init__(self, lanes: int, slots_per_lane: int) -> None:
        self._lanes = lanes
        self._capacity = lanes * slots_per_lane
        self._vacant: list[int] = []  # numbers below `_unused` that are free
        self._unused = 0
        self._size = 0
        self._open: dict[SequenceId, LiveSequence] = {}
        self._alive: dict[SequenceId, deque[LiveSequence]] = {}  # oldest first
        self._backlog: dict[LiveSequence, None] = {}

    def __len__(self) -> int:
        """Those that are not gone."""
        return self._size

    def __iter__(self) -> Iterator[LiveSequence]:
        return chain.from_iterable(self._alive.values())

    @property
    def backlog(self) -> int:
        """How many wait for a slot."""
        return len(self._backlog)

    def get(self, id_: SequenceId) -> LiveSequence | None:
        """The sequence that a request without START goes on with."""
        return self._open.get(id_)

    def open(self, id_: SequenceId) -> LiveSequence:
        """A new sequence, at the end of the backlog.

        Behind an older one with its id, which is closed and not gone, it waits outside: a model that
        keeps things by id must not see the two at once.
        """
        sequence = self._open[id_] = LiveSequence(id_)
        self._size += 1
        same = self._alive.setdefault(id_, deque())
        same.append(sequence)
        if len(same) == 1:
            self._backlog[sequence] = None
        return sequence

    def admit(self) -> list[LiveSequence]:
        """Gives free slots to those that wait longest, and returns them."""
        free = self._capacity - self._unused + len(self._vacant)
        admitted = list(islice(self._backlog, free))
        for sequence in admitted:
            del self._backlog[sequence]
            self._seat(sequence)
        return admitted

    def close(self, sequence: LiveSequence) -> None:
        """The next START with its id is another sequence; what it has queued is still executed."""
        if not sequence.closed:
            sequence.closed = True
            del self._open[sequence.id]

    def vacate(self, sequence: LiveSequence) -> None:
        """Its slot is free."""
        if sequence.lane != NO_LANE:
            heapq.heappush(self._vacant, sequence.row * self._lanes + sequence.lane)
            sequence.lane = NO_LANE

    def remove(self, sequence: LiveSequence) -> None:
        """It is gone, with its slot or its place in the backlog."""
        self.close(sequence)
        self.vacate(sequence)
        sequence.gone = True
        self._backlog.pop(sequence, None)
        self._size -= 1
        same = self._alive[sequence.id]
        first = same[0] is sequence
        same.remove(sequence)
        if not same:
            del self._alive[sequence.id]
        elif first:
            self._backlog[same[0]] = None

    def _seat(self, sequence: LiveSequence) -> None:
        if self._vacant:
            slot = heapq.heappop(self._vacant)
        else:
            slot = self._unused
            self._unused += 1
        sequence.row, sequence.lane = divmod(slot, self._lanes)
