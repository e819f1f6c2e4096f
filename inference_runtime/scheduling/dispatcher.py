"""The one loop of a scheduler: wait, form, hand to a free instance, settle. Runs on the event loop.

Requests that arrive in one turn of the event loop are dispatched together at its end. Nothing here polls:
an arrival, a finished execution and one timer are all that ever wakes it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from inference_runtime.instances.batch import Batch, Execution, held_back
from inference_runtime.instances.execution_placement import ExecutionPlacement
from inference_runtime.instances.instance import Instance
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.scheduling.answer_order import AnswerOrder
from inference_runtime.scheduling.dynamic_batcher import Batcher
from inference_runtime.scheduling.faults import (
    cancelled,
    deadline_passed,
    queue_full,
    queue_timeout,
    stopping,
)
from inference_runtime.scheduling.inflight import QUEUED, Inflight
from inference_runtime.scheduling.request_queue import RequestQueue
from inference_runtime.spec.messages import Answer, InferRequest
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import Gauges

# Executions on the event loop may go on this long before sockets get their turn again.
TURN_NS = 300_000
# The event loop's timers tick in milliseconds; what is left below that is waited for turn by turn.
TICK_NS = 1_000_000
# How soon a dead instance is asked whether it lives again, while requests wait.
RECOVERY_PAUSE_NS = 50_000_000
# A pass over the queue costs about 60 ns a request: wait ten times as long before the next.
EXPIRY_PAUSE_NS = 600


@dataclass(slots=True)
class DispatcherParts:
    queue: RequestQueue
    batcher: Batcher
    group: InstanceGroup
    placement: ExecutionPlacement
    inflight: Inflight
    preserve_ordering: bool = False


class Dispatcher:
    def __init__(
        self,
        parts: DispatcherParts,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._queue = parts.queue
        self._batcher = parts.batcher
        self._group = parts.group
        self._placement = parts.placement
        self._inflight = parts.inflight
        self._order: AnswerOrder | None = None
        self._start = parts.inflight.start
        if parts.preserve_ordering:
            self._order = AnswerOrder()
            self._start = partial(_start_in_order, self._order, parts.inflight)
        self._loop = loop
        self._clock = clock
        self._turn_due = False
        self._dispatching = False
        self._draining = False
        self._emptied = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._group.attach(lambda: bool(self._queue), self._dispatch)

    @property
    def pending(self) -> int:
        return self._inflight.count - self._inflight.running

    @property
    def inflight(self) -> int:
        return self._inflight.count

    def gauges(self) -> Gauges:
        return Gauges(
            pending=self.pending,
            inflight=self.inflight,
            instances=self._group.size,
            busy=self._group.busy,
        )

    def submit(self, request: InferRequest) -> None:
        """Never raises; `request.done` may be called before this returns."""
        if self._draining:
            self._inflight.refuse(request, stopping(request))
            return
        if not self._queue.push(request) and not self._push_after_dispatch(request):
            self._inflight.refuse(request, queue_full(request))
            return
        self._inflight.accept(request)
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def cancel(self, request: InferRequest) -> None:
        """The caller is gone: a waiting request ends now, a running one when its execution does."""
        if request.state == QUEUED:
            self._queue.remove(request)
            self._inflight.fail(request, cancelled(), self._clock())
            self._after_settling()
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
        if self._order is None:
            self._answer(instance, request, answer, final, times)
        else:
            leave = partial(self._answer, instance, request, answer, final, times)
            self._order.answered(request, leave, last=final)

    async def drain(self) -> None:
        """Refuses new requests; returns when the last one is settled and no thread is left."""
        self._draining = True
        self._batcher.hurry()
        if self._group.size == 0:
            self._fail_all()
        self._dispatch()
        while self._inflight.count:
            self._emptied.clear()
            await self._emptied.wait()
        if self._timer is not None:
            self._timer.cancel()
        await self._group.stop()

    def _push_after_dispatch(self, request: InferRequest) -> bool:
        # Arrivals of this very turn fill the queue although an instance is free to take them.
        self._dispatch()
        return self._queue.push(request)

    def _turn(self) -> None:
        self._turn_due = False
        self._dispatch()

    def _dispatch(self) -> None:
        if self._dispatching:
            return  # an answer led to a request that found the queue full
        self._dispatching = True
        try:
            now_ns = self._clock()
            if self._queue.next_expiry_ns:
                self._expire(now_ns)
            self._send_batches(now_ns)
        finally:
            self._dispatching = False
        if self._queue.next_expiry_ns:
            pause_ns = TICK_NS + len(self._queue) * EXPIRY_PAUSE_NS
            self._wake_at(max(self._queue.next_expiry_ns, now_ns + pause_ns), now_ns)

    def _send_batches(self, now_ns: int) -> None:
        began_ns = now_ns
        group, queue, placement = self._group, self._queue, self._placement
        while queue.size:
            instance = group.acquire()
            if instance is None:
                if group.recovering:
                    self._wake_at(now_ns + RECOVERY_PAUSE_NS, now_ns)
                return
            step = self._batcher.next_batch(queue, now_ns)
            if not isinstance(step, Batch):
                group.give_back(instance)
                if step is not None:
                    self._await_company(step.at_ns, now_ns)
                return
            self._start(step.requests)
            size = step.input_bytes() if placement.by_bytes else 0
            if not placement.inline(step.rows, size):
                instance.run_in_thread(step, self._finished)
                continue
            execution = instance.run(step)
            group.release(instance)
            took_ns = execution.times.finished_ns - execution.times.started_ns
            placement.measured(step.rows, took_ns, inline=True, input_bytes=size)
            self._settle(instance, execution)
            if not self._batcher.eager:
                self._schedule_turn()
                return
            now_ns = self._clock()
            if now_ns - began_ns > TURN_NS:
                self._schedule_turn()
                return

    def _finished(self, instance: Instance, execution: Execution) -> None:
        self._group.release(instance)
        batch, placement = execution.batch, self._placement
        if not execution.faulty:  # one that failed says nothing of how long the others take
            size = batch.input_bytes() if placement.by_bytes else 0
            took_ns = execution.times.compute_ns
            placement.measured(batch.rows, took_ns, inline=False, input_bytes=size)
        self._dispatch()  # first of all: the instance computes while the answers are written
        self._settle(instance, execution)

    def _settle(self, instance: Instance, execution: Execution) -> None:
        if self._order is None:
            self._settle_now(instance, execution)
        else:
            self._settle_in_order(self._order, instance, execution)
        if self._draining:
            self._after_settling()

    def _settle_now(self, instance: Instance, execution: Execution) -> None:
        self._inflight.settle(execution, instance.device, self._clock())

    def _settle_in_order(
        self, order: AnswerOrder, instance: Instance, execution: Execution
    ) -> None:
        requests = execution.batch.requests
        if not execution.deferred:
            # Their places are next to each other: when it is the first one's turn, it is the others', too.
            order.answered(requests[0], partial(self._settle_now, instance, execution), last=True)
            for request in requests[1:]:
                order.left(request)
            return
        self._settle_now(instance, held_back(execution))
        for request, answer in zip(requests, execution.answers, strict=True):
            if answer is not None:
                self.deliver(instance, request, answer, True, execution.times)

    def _answer(
        self,
        instance: Instance,
        request: InferRequest,
        answer: Answer,
        final: bool,
        times: ExecutionTimes,
    ) -> None:
        if not final:
            self._inflight.respond(request, answer, times)
            return
        self._inflight.finish(request, answer, instance.device, times, self._clock())
        self._after_settling()

    def _after_settling(self) -> None:
        if self._draining and self._inflight.count == 0:
            self._emptied.set()

    def _expire(self, now_ns: int) -> None:
        for request in self._queue.expire(now_ns):
            late = request.deadline_ns and request.deadline_ns <= now_ns
            self._inflight.fail(request, deadline_passed() if late else queue_timeout(), now_ns)
        self._after_settling()

    def _fail_all(self) -> None:
        for request in self._queue.take(len(self._queue)):
            self._inflight.fail(request, stopping(request), self._clock())

    def _schedule_turn(self) -> None:
        if self._queue.size and not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _await_company(self, at_ns: int, now_ns: int) -> None:
        if at_ns - now_ns < TICK_NS:
            self._schedule_turn()
        else:
            self._wake_at(at_ns - TICK_NS // 2, now_ns)

    def _wake_at(self, at_ns: int, now_ns: int) -> None:
        """One timer, for the earliest reason; when it comes too early, the dispatch it causes sets the next."""
        if self._timer is not None:
            if self._timer_ns <= at_ns:
                return
            self._timer.cancel()
        self._timer_ns = at_ns
        self._timer = self._loop.call_later((at_ns - now_ns) / 1e9, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._dispatch()


def _start_in_order(
    order: AnswerOrder, inflight: Inflight, requests: Sequence[InferRequest]
) -> None:
    inflight.start(requests)
    for request in requests:
        order.line_up(request)
