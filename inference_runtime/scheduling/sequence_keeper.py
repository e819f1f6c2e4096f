"""The life of the sequences of one version: a slot, its requests in order, rest, and an end. Pure.

Time comes in; what is ready goes out through `ready`. Whoever calls settles the requests.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile

from inference_runtime.errors import RuntimeFault
from inference_runtime.scheduling.sequence_patience import Patience
from inference_runtime.scheduling.sequence_requests import lateness, next_limit
from inference_runtime.scheduling.sequence_table import (
    NO_LANE,
    LiveSequence,
    SequenceId,
    SequenceTable,
)
from inference_runtime.spec.messages import InferRequest
from inference_runtime.spec.sequence_config import DirectStrategy, SequenceBatching

FaultOf = Callable[[InferRequest], RuntimeFault]


class SequenceKeeper:
    def __init__(
        self,
        sequences: SequenceBatching,
        *,
        lanes: int,
        slots_per_lane: int,
        ready: Callable[[LiveSequence, int], None],
        withdraw: Callable[[LiveSequence], None],
        line_up: Callable[[InferRequest], None] | None = None,
    ) -> None:
        self._table = SequenceTable(lanes, slots_per_lane)
        self._patience = Patience(sequences.max_idle_ns)
        self._iterative = sequences.iterative
        # A row of the direct strategy is free once its last request is in a batch.
        self._frees_early = isinstance(sequences.strategy, DirectStrategy)
        self._ready = ready
        self._withdraw = withdraw
        self._line_up = line_up  # told of each request whose sequence has a slot, in their order

    def __len__(self) -> int:
        """Those that hold a slot or wait for one."""
        return len(self._table)

    def __iter__(self) -> Iterator[LiveSequence]:
        return iter(list(self._table))

    @property
    def backlog(self) -> int:
        """How many wait for a slot."""
        return self._table.backlog

    def get(self, id_: SequenceId) -> LiveSequence | None:
        """The sequence that a request without START goes on with."""
        return self._table.get(id_)

    def open(self, id_: SequenceId) -> LiveSequence:
        return self._table.open(id_)

    def enter(self, sequence: LiveSequence, request: InferRequest, now_ns: int) -> None:
        """The request waits for its turn."""
        sequence.queue.append(request)
        if request.head.sequence_end:
            self._table.close(sequence)
        self._admit(now_ns)
        if sequence.lane == NO_LANE and request.head.timeout_us:
            at_ns = request.received_ns + request.head.timeout_us * 1000
            sequence.expires_ns = min(sequence.expires_ns or at_ns, at_ns)
            self._patience.limit(sequence, sequence.expires_ns)
        if request.deadline_ns:
            self._patience.limit(sequence, request.deadline_ns)
        self._place(sequence)
        self._go_on(sequence, now_ns)

    def begin_step(self, sequence: LiveSequence, now_ns: int) -> None:
        """Its first request, which is no longer in its queue, is being executed."""
        sequence.busy = True
        if self._frees_early and sequence.closed and not sequence.queue:
            self._table.vacate(sequence)
            self._admit(now_ns)

    def end_step(self, sequence: LiveSequence, now_ns: int) -> None:
        """That request has its last answer: the sequence goes on, rests or ends."""
        sequence.busy = False
        if self._iterative:
            self._table.close(sequence)
        if sequence.closed and not sequence.queue:
            self._end(sequence, now_ns)
        else:
            self._go_on(sequence, now_ns)

    def answered(self, sequence: LiveSequence, now_ns: int) -> None:
        """An answer that was held back has left."""
        sequence.held -= 1
        if not sequence.gone:
            self._go_on(sequence, now_ns)

    def repeat_step(self, sequence: LiveSequence, request: InferRequest, now_ns: int) -> None:
        """That request waits again, as the next step of its sequence."""
        sequence.busy = False
        sequence.queue.append(request)
        self._go_on(sequence, now_ns)

    def drop(self, sequence: LiveSequence, now_ns: int) -> list[InferRequest]:
        """Ends it, or has it end with the request that is executed; returns those that wait no longer."""
        if sequence.lane != NO_LANE:
            self._withdraw(sequence)
        waiting = list(sequence.queue)
        sequence.queue.clear()
        sequence.expires_ns = 0
        self._table.close(sequence)
        if not (sequence.busy or sequence.gone):
            self._end(sequence, now_ns)
        return waiting

    def lose(self, sequence: LiveSequence, now_ns: int) -> list[InferRequest]:
        """What its model knew of it is gone: as `drop`, but with a START that waits already it begins anew."""
        lost = list(takewhile(lambda request: not request.head.sequence_start, sequence.queue))
        if len(lost) == len(sequence.queue):
            return self.drop(sequence, now_ns)
        for _ in lost:
            sequence.queue.popleft()
        return lost

    def expire(self, now_ns: int) -> list[tuple[LiveSequence, FaultOf]]:
        """Ends those that were idle for too long; returns those to drop, with how their requests end."""
        due = self._patience.due(now_ns)
        for sequence in due.idle:
            self._table.close(sequence)
            if not (sequence.busy or sequence.queue):
                self._end(sequence, now_ns)
        late = []
        for sequence in due.late:
            fault = lateness(sequence, now_ns)
            if fault is not None:
                late.append((sequence, fault))
            elif limit_ns := next_limit(sequence):
                self._patience.limit(sequence, limit_ns)
        return late

    def next_look_ns(self, now_ns: int) -> int:
        """When to call `expire` again at the latest; 0: when something has happened."""
        due_ns = self._patience.next_ns()
        return max(due_ns, now_ns + self._patience.pause_ns()) if due_ns else 0

    def _admit(self, now_ns: int) -> None:
        for sequence in self._table.admit():
            sequence.expires_ns = 0
            self._place(sequence)
            self._go_on(sequence, now_ns)

    def _place(self, sequence: LiveSequence) -> None:
        if self._line_up is not None and sequence.lane != NO_LANE:
            for request in sequence.queue:
                self._line_up(request)

    def _go_on(self, sequence: LiveSequence, now_ns: int) -> None:
        """Something has changed for a sequence that is in a slot: it may be ready, or idle."""
        if sequence.lane == NO_LANE:
            return
        if sequence.queue and not sequence.busy:
            self._ready(sequence, now_ns)
        if self._iterative and sequence.queue:
            # Nobody but the model sends more: what it takes for a step is what may be too long.
            self._patience.rest(sequence, now_ns)
        elif sequence.queue or sequence.busy or sequence.held:
            self._patience.wake(sequence)
        elif not sequence.closed:
            self._patience.rest(sequence, now_ns)

    def _end(self, sequence: LiveSequence, now_ns: int) -> None:
        self._patience.forget(sequence)
        self._table.remove(sequence)
        self._admit(now_ns)
