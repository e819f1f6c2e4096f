"""The scheduler of a model with sequences: requests of one sequence in order, on one slot, one at a time.

Every instance is a lane of its own with a batcher of its own, because a sequence stays where its slot
is. All of it runs on the event loop; an arrival, a finished execution and one timer are all that wakes it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.batch import Execution
from inference_runtime.instances.execution_placement import ExecutionPlacement
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.scheduling.alarm import Alarm
from inference_runtime.scheduling.dynamic_batcher import WaitUntil
from inference_runtime.scheduling.faults import cancelled, deadline_passed, stopping
from inference_runtime.scheduling.inflight import QUEUED, RUNNING, Inflight
from inference_runtime.scheduling.sequence_batcher import Rows, SequenceBatcher
from inference_runtime.scheduling.sequence_patience import Patience
from inference_runtime.scheduling.sequence_requests import (
    IterativeIds,
    filler_of,
    request_fault,
    sequence_expired,
    start_missing,
    step_on,
)
from inference_runtime.scheduling.sequence_table import (
    NO_LANE,
    LiveSequence,
    SequenceId,
    SequenceTable,
)
from inference_runtime.spec.messages import Answer, InferRequest, RequestHead
from inference_runtime.spec.sequence_config import DirectStrategy, SequenceBatching
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import Gauges

logger = logging.getLogger(__name__)

# The event loop's timers tick in milliseconds.
TICK_NS = 1_000_000


@dataclass(slots=True)
class Lane:
    group: InstanceGroup  # of one
    batcher: SequenceBatcher


@dataclass(slots=True)
class SequenceParts:
    model: str
    sequences: SequenceBatching
    lanes: Sequence[Lane]
    slots_per_lane: int
    placement: ExecutionPlacement
    inflight: Inflight


class SequenceScheduler:
    def __init__(
        self,
        parts: SequenceParts,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._model = parts.model
        self._sequences = parts.sequences
        self._lanes = parts.lanes
        self._placement = parts.placement
        self._inflight = parts.inflight
        self._table = SequenceTable(len(parts.lanes), parts.slots_per_lane)
        self._patience = Patience(parts.sequences.max_idle_ns)
        self._owners: dict[InferRequest, LiveSequence] = {}
        self._iterative = IterativeIds(parts.sequences) if parts.sequences.iterative else None
        self._own_heads: dict[InferRequest, RequestHead] = {}
        # A row of the direct strategy is free once its last request is in a batch.
        self._frees_early = isinstance(parts.sequences.strategy, DirectStrategy)
        self._loop = loop
        self._clock = clock
        self._turn_due = False
        self._draining = False
        self._emptied = asyncio.Event()
        self._alarm = Alarm(loop, self._dispatch)
        # Whether another load has the sequence and takes the request; see `Router`.
        self.elsewhere: Callable[[InferRequest], bool] = lambda request: False
        for lane in self._lanes:
            lane.group.attach(partial(bool, lane.batcher), self._dispatch)

    @property
    def pending(self) -> int:
        return self._inflight.count - self._inflight.running

    @property
    def inflight(self) -> int:
        return self._inflight.count

    @property
    def sequences(self) -> int:
        """Those that hold a slot or wait for one."""
        return len(self._table)

    def gauges(self) -> Gauges:
        return Gauges(
            pending=self.pending,
            inflight=self.inflight,
            instances=sum(lane.group.size for lane in self._lanes),
            busy=sum(lane.group.busy for lane in self._lanes),
        )

    def holds(self, id_: SequenceId) -> bool:
        """Whether a request without START would go on with a sequence of this load."""
        return self._table.get(id_) is not None

    def submit(self, request: InferRequest) -> None:
        """Never raises; `request.done` may be called before this returns."""
        own_head = head = request.head
        if self._iterative is not None:
            head = request.head = self._iterative.first_step(own_head)
        fault: RuntimeFault | None = request_fault(request, self._sequences, self._model)
        if fault is None and self._draining and head.sequence_start:
            fault = stopping(request)
        if fault is not None:
            self._inflight.refuse(request, fault)
            return
        sequence = self._table.get(head.sequence_id)
        if sequence is None:
            if not head.sequence_start:
                if not self.elsewhere(request):
                    self._inflight.refuse(request, start_missing(request, self._model))
                return
            sequence = self._table.open(head.sequence_id)
        elif head.sequence_start:
            logger.warning(
                "sequence %s of model '%s' has a new START although it has not ended: what it has "
                "queued is still executed",
                head.sequence_id,
                self._model,
            )
        if self._iterative is not None:
            self._own_heads[request] = own_head
        self._inflight.accept(request)
        self._enqueue(sequence, request)

    def cancel(self, request: InferRequest) -> None:
        """A waiting request ends now, and all of its sequence that waits with it; a running one later."""
        if request.state == QUEUED:
            self._drop(self._owners[request], lambda _: cancelled())
            self._schedule_turn()
        else:
            self._inflight.abandon(request)

    def deliver(
        self,
        instance: Instance,
        request: InferRequest,
        answer: Answer,
        final: bool,
        times: ExecutionTimes,
    ) -> None:
        """An answer that does not come with the end of an execution; see `RequestRunner`."""
        if not final:
            self._inflight.respond(request, answer, times)
        elif request in self._owners:  # and not a filler, or one that has had its last answer
            self._step_done(request)
            self._inflight.finish(request, answer, instance.device, times, self._clock())
            self._after_settling()
            self._schedule_turn()

    async def drain(self) -> None:
        """Refuses new sequences; returns when the last one has ended, by itself or by being idle."""
        self._draining = True
        for lane in self._lanes:
            lane.batcher.hurry()
        if not self._lanes:
            for sequence in list(self._table):
                self._drop(sequence, stopping)
        self._dispatch()
        while self._inflight.count or len(self._table):
            self._emptied.clear()
            await self._emptied.wait()
        self._alarm.cancel()
        for lane in self._lanes:
            await lane.group.stop()

    # From arrival to a batch

    def _enqueue(self, sequence: LiveSequence, request: InferRequest) -> None:
        self._owners[request] = sequence
        sequence.queue.append(request)
        if request.head.sequence_end:
            self._table.close(sequence)
        self._admit()
        if sequence.lane == NO_LANE:
            self._limit_wait(sequence, request)
        if request.deadline_ns:
            self._patience.limit(sequence, request.deadline_ns)
        self._go_on(sequence)
        self._schedule_turn()

    def _limit_wait(self, sequence: LiveSequence, request: InferRequest) -> None:
        if request.head.timeout_us:
            at_ns = request.received_ns + request.head.timeout_us * 1000
            sequence.expires_ns = min(sequence.expires_ns or at_ns, at_ns)
            self._patience.limit(sequence, sequence.expires_ns)

    def _admit(self) -> None:
        for sequence in self._table.admit():
            sequence.expires_ns = 0
            self._go_on(sequence)

    def _go_on(self, sequence: LiveSequence) -> None:
        """Something has changed for a sequence that is in a slot: it may be ready, or idle."""
        if sequence.lane == NO_LANE:
            return
        now_ns = self._clock()
        if sequence.queue and not sequence.busy:
            self._lanes[sequence.lane].batcher.ready(sequence, now_ns)
        if self._iterative is not None and sequence.queue:
            # Nobody but the model sends more: what it takes for a step is what may be too long.
            self._patience.rest(sequence, now_ns)
        elif sequence.queue or sequence.busy:
            self._patience.wake(sequence)
        elif not sequence.closed:
            self._patience.rest(sequence, now_ns)

    def _schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        self._dispatch()

    def _dispatch(self) -> None:
        now_ns = self._clock()
        self._expire(now_ns)
        for lane in self._lanes:
            self._serve(lane, now_ns)
        due_ns = self._patience.next_ns()
        if due_ns:
            self._alarm.set(max(due_ns, now_ns + self._patience.pause_ns()), now_ns)

    def _serve(self, lane: Lane, now_ns: int) -> None:
        if not lane.batcher:
            return
        instance = lane.group.acquire()
        if instance is None:
            return
        rows = lane.batcher.next_rows(now_ns)
        if rows is None or isinstance(rows, WaitUntil):
            lane.group.give_back(instance)
            if rows is not None:
                self._alarm.set(max(rows.at_ns, now_ns + TICK_NS), now_ns)
            return
        batch = self._batch(rows)
        self._inflight.start(batch.requests)
        if self._placement.inline(batch.rows):
            self._executed(lane, instance, instance.run(batch), inline=True)
            self._schedule_turn()
        else:
            instance.run_in_thread(batch, partial(self._finished, lane))

    def _batch(self, rows: Rows) -> SequenceBatch:
        requests: list[InferRequest | None] = []
        states = []
        for sequence in rows:
            if sequence is None:
                requests.append(None)
                continue
            requests.append(sequence.queue.popleft())
            states.append(sequence.state)
            sequence.busy = True
            if self._frees_early and sequence.closed and not sequence.queue:
                self._table.vacate(sequence)
        places = tuple(n for n, request in enumerate(requests) if request is not None)
        real = [request for request in requests if request is not None]
        filler = filler_of(real[0]) if len(real) < len(requests) else real[0]
        self._admit()
        return SequenceBatch([request or filler for request in requests], places, states)

    # From an execution to its end

    def _finished(self, lane: Lane, instance: Instance, execution: Execution) -> None:
        self._executed(lane, instance, execution, inline=False)
        self._dispatch()

    def _executed(
        self, lane: Lane, instance: Instance, execution: Execution, *, inline: bool
    ) -> None:
        lane.group.release(instance)
        batch = execution.batch
        self._placement.measured(batch.rows, execution.times.compute_ns, inline=inline)
        for request, answer in zip(batch.requests, execution.answers, strict=True):
            if answer is not None and request in self._owners:
                self._step_done(request)
        self._inflight.settle(execution, instance.device, self._clock())
        for request in execution.rescheduled:
            if request in self._owners:
                self._step_again(request, execution, instance)
        self._after_settling()

    def _step_done(self, request: InferRequest) -> None:
        """A running request has its last answer; its sequence goes on, rests or ends."""
        sequence = self._owners.pop(request)
        own_head = self._own_heads.pop(request, None)
        if own_head is not None:
            request.head = own_head
            self._table.close(sequence)
        sequence.busy = False
        if sequence.closed and not sequence.queue:
            self._end(sequence)
        else:
            self._go_on(sequence)

    def _step_again(self, request: InferRequest, execution: Execution, instance: Instance) -> None:
        """The model wants it once more, as the next step of its sequence."""
        sequence = self._owners[request]
        fault: RuntimeFault | None = None
        if request.state != RUNNING:
            fault = cancelled()
        elif sequence.closed:
            fault = start_missing(request, self._model)
        if fault is not None:
            self._step_done(request)
            self._inflight.finish(request, fault, instance.device, execution.times, self._clock())
            return
        step_on(request)
        self._inflight.requeue(request)
        sequence.busy = False
        sequence.queue.append(request)
        self._go_on(sequence)

    def _end(self, sequence: LiveSequence) -> None:
        self._patience.forget(sequence)
        self._table.remove(sequence)
        self._admit()

    def _drop(self, sequence: LiveSequence, fault: Callable[[InferRequest], RuntimeFault]) -> None:
        """Ends all that waits of a sequence, and the sequence with it; what runs goes on to its end."""
        if sequence.lane != NO_LANE:
            self._lanes[sequence.lane].batcher.withdraw(sequence)
        waiting = list(sequence.queue)
        sequence.queue.clear()
        self._table.close(sequence)
        if not sequence.busy:
            self._end(sequence)
        now_ns = self._clock()
        for request in waiting:
            del self._owners[request]
            own_head = self._own_heads.pop(request, None)
            request.head = own_head or request.head
            self._inflight.fail(request, fault(request), now_ns)
        self._after_settling()

    def _expire(self, now_ns: int) -> None:
        due = self._patience.due(now_ns)
        for sequence in due.idle:
            self._table.close(sequence)
            if not (sequence.busy or sequence.queue):
                self._end(sequence)
        for sequence in due.late:
            self._expire_waiting(sequence, now_ns)
        self._after_settling()

    def _expire_waiting(self, sequence: LiveSequence, now_ns: int) -> None:
        if sequence.expires_ns and sequence.expires_ns <= now_ns:
            self._drop(sequence, lambda _: sequence_expired())
            return
        deadlines = [request.deadline_ns for request in sequence.queue if request.deadline_ns]
        if any(deadline_ns <= now_ns for deadline_ns in deadlines):
            # The client of a sequence that misses a step can not go on with it.
            self._drop(
                sequence,
                lambda request: (
                    deadline_passed()
                    if request.deadline_ns and request.deadline_ns <= now_ns
                    else cancelled()
                ),
            )
            return
        if sequence.expires_ns:
            deadlines.append(sequence.expires_ns)
        if deadlines:
            self._patience.limit(sequence, min(deadlines))

    def _after_settling(self) -> None:
        if self._draining and not self._inflight.count and not len(self._table):
            self._emptied.set()
