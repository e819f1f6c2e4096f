"""The scheduler of a model with sequences: requests of one sequence in order, on one slot, one at a time.

All of it runs on the event loop; an arrival, a finished execution and one timer are all that wakes it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.batch import Execution, held_back
from inference_runtime.instances.execution_placement import ExecutionPlacement
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.scheduling.alarm import Alarm
from inference_runtime.scheduling.answer_order import AnswerOrder
from inference_runtime.scheduling.faults import cancelled, stopping
from inference_runtime.scheduling.hold import NO_HOLD, Hold
from inference_runtime.scheduling.inflight import ABANDONED, QUEUED, RUNNING, Inflight
from inference_runtime.scheduling.sequence_keeper import FaultOf, SequenceKeeper
from inference_runtime.scheduling.sequence_lanes import Lane, LaneEvents, SequenceLanes
from inference_runtime.scheduling.sequence_requests import (
    EqualPlans,
    Iterations,
    request_fault,
    start_missing,
    step_on,
)
from inference_runtime.scheduling.sequence_table import LiveSequence, SequenceId
from inference_runtime.spec.messages import Answer, InferRequest
from inference_runtime.spec.sequence_config import OldestStrategy, SequenceBatching
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import DeviceStats, Gauges

logger = logging.getLogger(__name__)

# The event loop's timers tick in milliseconds; what is left below that is waited for turn by turn.
TICK_NS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _LastAnswer:
    """To a request that is not settled with its execution."""

    sequence: LiveSequence
    request: InferRequest
    answer: Answer
    device: DeviceStats
    times: ExecutionTimes
    streamed: bool = False  # perhaps of several: it came by itself


@dataclass(slots=True)
class SequenceParts:
    model: str
    sequences: SequenceBatching
    lanes: Sequence[Lane]
    slots_per_lane: int
    placement: ExecutionPlacement
    inflight: Inflight
    hold: Hold = NO_HOLD


class SequenceScheduler:
    def __init__(
        self,
        parts: SequenceParts,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._model = parts.model
        self._correlation = parts.sequences.correlation
        self._inflight = parts.inflight
        self._lanes = SequenceLanes(
            parts.lanes,
            parts.placement,
            LaneEvents(self._started, self._executed, self._schedule_turn, self._dispatch),
        )
        strategy = parts.sequences.strategy
        ordered = isinstance(strategy, OldestStrategy) and strategy.preserve_ordering
        self._order = AnswerOrder() if ordered else None
        self._keeper = SequenceKeeper(
            parts.sequences,
            lanes=len(parts.lanes),
            slots_per_lane=parts.slots_per_lane,
            ready=self._lanes.ready,
            withdraw=self._lanes.withdraw,
            line_up=self._order.line_up if self._order is not None else None,
        )
        self._plans = EqualPlans()
        self._owners: dict[InferRequest, LiveSequence] = {}
        self._hold = parts.hold
        self._iterations = Iterations(parts.sequences) if parts.sequences.iterative else None
        self._loop = loop
        self._clock = clock
        self._turn_due = False
        self._draining = False
        self._emptied = asyncio.Event()
        self._alarm = Alarm(loop, self._dispatch)
        # Whether another load has the sequence and takes the request; see `Router`.
        self.elsewhere: Callable[[InferRequest], bool] = lambda request: False

    @property
    def pending(self) -> int:
        return self._inflight.count - self._inflight.running

    @property
    def inflight(self) -> int:
        """What a drain waits for: sequences that may go on count as much as requests do."""
        return max(self._inflight.count, self.sequences)

    @property
    def sequences(self) -> int:
        """Those that hold a slot or wait for one."""
        return len(self._keeper)

    def gauges(self) -> Gauges:
        return Gauges(
            pending=self.pending,
            inflight=self._inflight.count,
            instances=len(self._lanes),
            busy=self._lanes.busy,
        )

    def holds(self, id_: SequenceId) -> bool:
        """Whether a request without START would go on with a sequence of this load."""
        return self._keeper.get(id_) is not None

    def submit(self, request: InferRequest) -> None:
        """Never raises; `request.done` may be called before this returns."""
        if self._iterations is not None:
            self._iterations.begin(request)
        head = request.head
        fault: RuntimeFault | None = request_fault(request, self._correlation, self._model)
        if fault is None and self._draining and head.sequence_start:
            fault = stopping(request)
        if fault is not None:
            self._refuse(request, fault)
            return
        self._end_forgotten()
        sequence = self._keeper.get(head.sequence_id)
        if sequence is None:
            if not head.sequence_start:
                if not self.elsewhere(request):
                    self._refuse(request, start_missing(request, self._model))
                return
            sequence = self._keeper.open(head.sequence_id)
        elif head.sequence_start:
            logger.warning(
                "sequence %s of model '%s' has a new START although it has not ended: what it has "
                "queued is still executed",
                head.sequence_id,
                self._model,
            )
        request.plan = self._plans.one_for(request.plan)
        self._inflight.accept(request)
        self._owners[request] = sequence
        self._keeper.enter(sequence, request, self._clock())
        self._schedule_turn()

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
            respond = partial(self._inflight.respond, request, answer, times)
            if self._order is None:
                respond()
            else:
                self._order.answered(request, respond, last=False)
        elif request.state in (
            RUNNING,
            ABANDONED,
        ):  # not a filler, nor one that has its last answer
            sequence = self._step_done(request)
            self._finish(
                _LastAnswer(sequence, request, answer, instance.device, times, streamed=True)
            )
            self._after_settling()
            self._schedule_turn()

    async def drain(self) -> None:
        """Refuses new sequences; returns when the last one has ended, by itself or by being idle."""
        self._draining = True
        self._lanes.hurry()
        self._hold = NO_HOLD
        if not len(self._lanes):
            for sequence in self._keeper:
                self._drop(sequence, stopping)
        self._dispatch()
        while self._inflight.count or self.sequences:
            self._emptied.clear()
            await self._emptied.wait()
        self._alarm.cancel()
        await self._lanes.stop()

    # From arrival to a batch

    def _refuse(self, request: InferRequest, fault: RuntimeFault) -> None:
        if self._iterations is not None:
            self._iterations.end(request)
        self._inflight.refuse(request, fault)

    def _schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        self._dispatch()

    def _dispatch(self) -> None:
        now_ns = self._clock()
        for sequence, fault in self._keeper.expire(now_ns):
            self._drop(sequence, fault)
        self._end_forgotten()
        self._after_settling()
        batch_ns = self._lanes.serve(now_ns) if not self._held() else 0
        if batch_ns:
            self._await_company(batch_ns, now_ns)
        look_ns = self._keeper.next_look_ns(now_ns)
        if look_ns:
            self._alarm.set(look_ns, now_ns)

    def _held(self) -> bool:
        hold = self._hold
        if self.pending < hold.requests or self._keeper.backlog < hold.backlog:
            return True
        self._hold = NO_HOLD
        return False

    def _await_company(self, at_ns: int, now_ns: int) -> None:
        if at_ns - now_ns < TICK_NS:
            self._schedule_turn()
        else:
            self._alarm.set(at_ns - TICK_NS // 2, now_ns)

    def _started(self, batch: SequenceBatch, sequences: Sequence[LiveSequence]) -> None:
        self._inflight.start(batch.requests)
        now_ns = self._clock()
        for sequence in sequences:
            self._keeper.begin_step(sequence, now_ns)

    # From an execution to its end

    def _executed(self, instance: Instance, execution: Execution) -> None:
        late: list[_LastAnswer] = []
        for request, answer in zip(execution.batch.requests, execution.answers, strict=True):
            if answer is not None and request in self._owners:
                sequence = self._step_done(request)
                if self._order is not None:
                    late.append(
                        _LastAnswer(sequence, request, answer, instance.device, execution.times)
                    )
        if self._order is not None:
            execution = held_back(execution)
        self._inflight.settle(execution, instance.device, self._clock())
        for each in late:
            self._finish(each)
        for request in execution.rescheduled:
            if request in self._owners:
                self._step_again(request, execution, instance)
        self._after_settling()

    def _finish(self, late: _LastAnswer) -> None:
        """Ends a request that is not settled with its execution, as soon as it is its answer's turn."""
        if self._order is None:
            self._settle(late)
        else:
            self._order.answered(late.request, partial(self._settle, late), last=True)

    def _settle(self, late: _LastAnswer) -> None:
        settle = self._inflight.finish if late.streamed else self._inflight.settle_late
        now_ns = self._clock()
        settle(late.request, late.answer, late.device, late.times, now_ns)
        if self._order is not None:
            self._keeper.answered(late.sequence, now_ns)

    def _step_done(self, request: InferRequest) -> LiveSequence:
        """A running request has its last answer; its sequence goes on, rests or ends."""
        sequence = self._owners.pop(request)
        if self._iterations is not None:
            self._iterations.end(request)
        if self._order is not None:
            sequence.held += 1
        self._keeper.end_step(sequence, self._clock())
        return sequence

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
            self._finish(
                _LastAnswer(
                    sequence, request, fault, instance.device, execution.times, streamed=True
                )
            )
            return
        step_on(request)
        self._inflight.requeue(request)
        self._keeper.repeat_step(sequence, request, self._clock())

    def _drop(self, sequence: LiveSequence, fault: FaultOf) -> None:
        """Ends all that waits of a sequence, and the sequence with it; what runs goes on to its end."""
        self._give_up(self._keeper.drop(sequence, self._clock()), fault)

    def _end_forgotten(self) -> None:
        """Ends the sequences that a model has lost with its process; their ids mean nothing to the next one."""
        for sequence in self._lanes.forgotten(self._keeper):
            lost = self._keeper.lose(sequence, self._clock())
            self._give_up(lost, partial(start_missing, model=self._model))

    def _give_up(self, waiting: Sequence[InferRequest], fault: FaultOf) -> None:
        now_ns = self._clock()
        for request in waiting:
            del self._owners[request]
            if self._iterations is not None:
                self._iterations.end(request)
            self._inflight.fail(request, fault(request), now_ns)
            if self._order is not None:
                self._order.left(request)
        self._after_settling()

    def _after_settling(self) -> None:
        if self._draining and not self._inflight.count and not self.sequences:
            self._emptied.set()
