"""Which sequences of one instance are executed together: the direct and the oldest strategy. Pure.

A sequence is ready when it has a request and none of its requests is being executed. Every request is
one row, so that numbers of requests and of rows are the same.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from inference_runtime.scheduling.dynamic_batcher import WaitUntil
from inference_runtime.scheduling.sequence_table import LiveSequence
from inference_runtime.spec.sequence_config import (
    DirectStrategy,
    OldestStrategy,
    SequenceBatching,
)

_FLOAT32_ERROR = 2.0**-24
Rows = Sequence[LiveSequence | None]  # None: a filler


class SequenceBatcher(Protocol):
    def __bool__(self) -> bool:
        """Whether any sequence is ready."""

    def ready(self, sequence: LiveSequence, now_ns: int) -> None:
        """It is ready; nothing happens when it was already."""

    def withdraw(self, sequence: LiveSequence) -> None:
        """It is not ready after all; nothing happens when it was not."""

    def next_rows(self, now_ns: int) -> Rows | WaitUntil | None:
        """The sequences of the next batch, which are no longer ready; None: there is none."""

    def hurry(self) -> None:
        """From now on nothing waits for company: the scheduler is draining."""


def batcher_for(sequences: SequenceBatching, max_batch_size: int) -> SequenceBatcher:
    """One instance's."""
    limit = max(max_batch_size, 1)
    varying = any(not state.fixed for state in sequences.states)
    if isinstance(sequences.strategy, OldestStrategy):
        return OldestBatcher(sequences.strategy, limit, varying_states=varying)
    return DirectBatcher(sequences.strategy, limit, varying_states=varying)


def slots_for(sequences: SequenceBatching, max_batch_size: int) -> int:
    """How many sequences one instance takes at a time."""
    strategy = sequences.strategy
    if isinstance(strategy, OldestStrategy) and strategy.max_candidate_sequences:
        return strategy.max_candidate_sequences
    return max(max_batch_size, 1)


def _taken(sequence: LiveSequence) -> LiveSequence:
    sequence.ready = False
    return sequence


def _enough(utilization: float, limit: int) -> int:
    """So many of the slots are that share of them."""
    # The config has 32 bits of it: 0.2 is a little more there, and 2 of 10 are enough.
    return math.ceil(limit * utilization * (1 - _FLOAT32_ERROR))


class _Company:
    """Whether the next requests of two sequences fit into one batch."""

    def __init__(self, *, varying_states: bool) -> None:
        self._varying = varying_states

    def key(self, sequence: LiveSequence) -> Hashable:
        request = sequence.queue[0]
        if not self._varying:
            key: Hashable = request.plan.merge_key
            return key
        values = sequence.state.values
        if values is None or request.head.sequence_start:
            return (request.plan.merge_key, None)
        return (request.plan.merge_key, tuple(value.shape for value in values))


class DirectBatcher:
    """Row n is the sequence in slot n. What lies below the highest ready row and is not ready is filled."""

    def __init__(
        self, strategy: DirectStrategy, limit: int, *, varying_states: bool = False
    ) -> None:
        self._limit = limit
        self._company = _Company(varying_states=varying_states)
        # Each of the two means nothing without the other.
        waits = strategy.max_queue_delay_ns > 0 and strategy.minimum_slot_utilization > 0
        self._delay_ns = strategy.max_queue_delay_ns if waits else 0
        self._enough = _enough(strategy.minimum_slot_utilization, limit)
        self._ready: dict[int, LiveSequence] = {}  # by row

    def __bool__(self) -> bool:
        return bool(self._ready)

    def ready(self, sequence: LiveSequence, now_ns: int) -> None:
        sequence.ready = True
        self._ready[sequence.row] = sequence

    def withdraw(self, sequence: LiveSequence) -> None:
        if sequence.ready:
            sequence.ready = False
            del self._ready[sequence.row]

    def next_rows(self, now_ns: int) -> Rows | WaitUntil | None:
        if not self._ready:
            return None
        if self._delay_ns and len(self._ready) < self._enough:
            oldest_ns = min(s.queue[0].received_ns for s in self._ready.values())
            if now_ns - oldest_ns < self._delay_ns:
                return WaitUntil(oldest_ns + self._delay_ns)
        first = min(self._ready)
        key = self._company.key(self._ready[first])
        taken = [row for row, s in self._ready.items() if self._company.key(s) == key]
        rows: list[LiveSequence | None] = [None] * (max(taken) + 1)
        for row in taken:
            rows[row] = _taken(self._ready.pop(row))
        return rows

    def hurry(self) -> None:
        self._delay_ns = 0


class OldestBatcher:
    """First come, first served among the ready sequences, by the rules of the dynamic batcher."""

    def __init__(
        self, strategy: OldestStrategy, limit: int, *, varying_states: bool = False
    ) -> None:
        self._limit = limit
        self._company = _Company(varying_states=varying_states)
        self._preferred = strategy.preferred_batch_sizes
        self._largest = max(self._preferred, default=0)
        self._delay_ns = strategy.max_queue_delay_ns
        self._ready: deque[LiveSequence] = deque()

    def __bool__(self) -> bool:
        return bool(self._ready)

    def ready(self, sequence: LiveSequence, now_ns: int) -> None:
        if not sequence.ready:
            sequence.ready = True
            sequence.ready_ns = now_ns
            self._ready.append(sequence)

    def withdraw(self, sequence: LiveSequence) -> None:
        if sequence.ready:
            sequence.ready = False
            self._ready.remove(sequence)

    def next_rows(self, now_ns: int) -> Rows | WaitUntil | None:
        if not self._ready:
            return None
        count = self._fitting(islice(self._ready, self._limit))
        closed = count == self._limit or count < len(self._ready)
        due_ns = self._ready[0].ready_ns + self._delay_ns
        overdue = now_ns >= due_ns
        best = max((size for size in self._preferred if size <= count), default=0)
        if best and not (self._delay_ns and overdue):
            count = best
        elif not (closed or count >= self._largest or overdue):
            return WaitUntil(due_ns)
        return [_taken(self._ready.popleft()) for _ in range(count)]

    def _fitting(self, candidates: Iterable[LiveSequence]) -> int:
        """How many from the front on may share a batch."""
        keys = [self._company.key(sequence) for sequence in candidates]
        return next((n for n, key in enumerate(keys) if key != keys[0]), len(keys))

    def hurry(self) -> None:
        self._delay_ns = 0
