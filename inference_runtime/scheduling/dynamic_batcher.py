"""The rules by which waiting requests become batches. Pure: a queue and the time in, a decision out."""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from inference_runtime.instances.batch import Batch
from inference_runtime.scheduling.request_queue import RequestQueue
from inference_runtime.spec.model_config import DynamicBatching


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to send before that moment, unless a request arrives or leaves."""

    at_ns: int


class Batcher(Protocol):
    @property
    def eager(self) -> bool:
        """Whether several batches may be formed in a row without looking for new arrivals in between."""

    def next_batch(self, queue: RequestQueue, now_ns: int) -> Batch | WaitUntil | None:
        """Takes the next batch out of the queue; None: the queue is empty. Asked when an instance is free."""

    def hurry(self) -> None:
        """From now on nothing waits for company: the scheduler is draining."""


class SingleBatcher:
    """The default scheduler's rule: every request is executed alone, first come, first served."""

    eager = True

    def next_batch(self, queue: RequestQueue, now_ns: int) -> Batch | WaitUntil | None:
        if not queue:
            return None
        requests = queue.take(1)
        return Batch(requests, requests[0].plan.batch_size)

    def hurry(self) -> None:
        """There is nothing to hurry."""


class DynamicBatcher:
    """Triton's rules: preferred sizes, the largest size, a delay for the oldest request.

    The scan is kept between calls, so a request is looked at once while a batch grows.
    """

    eager = False

    def __init__(self, batching: DynamicBatching, max_batch_size: int) -> None:
        # A model without a batch dimension executes requests one by one, at once.
        self._limit = max(max_batch_size, 1)
        self._preferred = frozenset(batching.preferred_batch_sizes)
        self._largest = max(self._preferred, default=0)
        self._delay_ns = batching.max_queue_delay_ns
        # Whatever waits is sent, up to the limit: a complete config always prefers at least the largest size.
        self._all_sizes = self._preferred <= {self._limit}
        self._takes_all = self._delay_ns == 0 and self._all_sizes
        self._revision = -1
        self._start_over(-1)

    def hurry(self) -> None:
        self._delay_ns = 0
        self._takes_all = self._all_sizes

    def next_batch(self, queue: RequestQueue, now_ns: int) -> Batch | WaitUntil | None:
        if self._takes_all:
            if queue.size == 1:
                requests = queue.take(1)
                return Batch(requests, requests[0].plan.batch_size)
            batch = self._alike(queue)
            if batch is not None:
                return batch
        if queue.revision != self._revision:
            self._start_over(queue.revision)
        if not self._closed:
            self._scan(queue)
        if self._count == 0:
            return None
        overdue = self._delay_ns == 0 or now_ns - self._oldest_ns >= self._delay_ns
        if self._best_count and (self._delay_ns == 0 or not overdue):
            return self._send(queue, self._best_count, self._best_rows)
        if self._closed or self._rows >= self._largest or overdue:
            return self._send(queue, self._count, self._rows)
        return WaitUntil(self._oldest_ns + self._delay_ns)

    def _alike(self, queue: RequestQueue) -> Batch | None:
        """As many as fit of single rows of one plan, the usual case; None where the queue begins otherwise."""
        plans = [request.plan for request in islice(queue.waiting(), self._limit)]
        count = len(plans)
        if not plans or plans[0].batch_size != 1 or plans.count(plans[0]) != count:
            return None
        return self._send(queue, count, count, uniform=True)

    def _start_over(self, revision: int) -> None:
        self._revision = revision
        self._count = 0
        self._rows = 0
        self._best_count = 0
        self._best_rows = 0
        self._closed = False  # nothing can be added any more
        self._key: Hashable = None
        self._oldest_ns = 0

    def _scan(self, queue: RequestQueue) -> None:
        count = self._count
        rows = self._rows
        oldest_ns = self._oldest_ns
        for request in queue.waiting(count):
            plan = request.plan
            total = rows + plan.batch_size
            if total > self._largest and not self._best_count:
                self._best_count, self._best_rows = count, rows
            if count and (total > self._limit or plan.merge_key != self._key):
                self._closed = True
                break
            if count == 0:
                self._key = plan.merge_key
                oldest_ns = request.received_ns
            elif request.received_ns < oldest_ns:
                oldest_ns = request.received_ns
            count += 1
            rows = total
            if rows in self._preferred:
                self._best_count, self._best_rows = count, rows
            if rows >= self._limit:
                self._closed = True
                break
        self._count = count
        self._rows = rows
        self._oldest_ns = oldest_ns

    def _send(self, queue: RequestQueue, count: int, rows: int, *, uniform: bool = False) -> Batch:
        return Batch(queue.take(count), rows, uniform=uniform)
