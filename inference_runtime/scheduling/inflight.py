"""Every request of a scheduler from acceptance to its one end: the only writer of `request.state`.

Whatever happens to a request — answered, failed, refused, cancelled, timed out — it is counted and its
`done` is called here, once. Counters come first, so that a client that has its answer finds it counted.
"""

import logging
from collections.abc import Sequence

from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.batch import Execution
from inference_runtime.scheduling.faults import cancelled
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import DeviceStats, VersionStats

logger = logging.getLogger(__name__)

NEW = 0
QUEUED = 1
RUNNING = 2
ABANDONED = 3  # running, and nobody waits for the answer any more
SETTLED = 4


def refuse(request: InferRequest, fault: RuntimeFault, stats: VersionStats | None) -> None:
    """Ends a request that no scheduler has accepted; without `stats` (no such model) the caller has counted it."""
    if request.state == SETTLED:
        return
    request.state = SETTLED
    if stats is not None:
        stats.refused(request, fault)
    _reply(request, fault)


def answer_from_cache(
    request: InferRequest,
    response: InferResponse,
    stats: VersionStats,
    looked_up: tuple[int, int],
    now_ns: int,
) -> None:
    """Ends a request that no scheduler needs to execute."""
    if request.state == SETTLED:
        return
    request.state = SETTLED
    stats.answered_from_cache(request, looked_up, now_ns)
    _reply(request, response)


class Inflight:
    def __init__(self, stats: VersionStats, *, decoupled: bool = False) -> None:
        self._stats = stats
        self._decoupled = decoupled  # responses are counted one by one
        self.count = 0  # accepted, not settled
        self.running = 0
        self._abandoned = 0

    def refuse(self, request: InferRequest, fault: RuntimeFault) -> None:
        refuse(request, fault, self._stats)

    def accept(self, request: InferRequest) -> None:
        request.state = QUEUED
        self.count += 1

    def start(self, requests: Sequence[InferRequest]) -> None:
        for request in requests:
            request.state = RUNNING
        self.running += len(requests)

    def requeue(self, request: InferRequest) -> None:
        """A running request waits again: its model wants it once more."""
        request.state = QUEUED
        self.running -= 1

    def abandon(self, request: InferRequest) -> None:
        """A running request can not be called back; what it produces is thrown away."""
        if request.state == RUNNING:
            request.state = ABANDONED
            request.cancelled = True
            self._abandoned += 1

    def fail(self, request: InferRequest, fault: RuntimeFault, now_ns: int) -> None:
        """Ends a request that waits in the queue no longer and has not been started."""
        if request.state != QUEUED:
            return
        request.state = SETTLED
        self.count -= 1
        self._stats.failed_after_acceptance(request, fault, now_ns)
        _reply(request, fault)

    def settle(self, execution: Execution, device: DeviceStats, now_ns: int) -> None:
        """Ends the requests of an execution, each by its own answer."""
        batch = execution.batch
        requests = batch.requests
        self._stats.executed(device, execution.times, batch.rows, requests[0])
        if execution.deferred:
            self._settle_those_done(execution, device, now_ns)
            return
        answers: Sequence[Answer | None]
        if execution.faulty or self._abandoned:
            answers = self._settle_each(execution, device, now_ns)
        else:
            answers = execution.answers
            rows = len(requests) * requests[0].plan.batch_size if batch.uniform else 0
            self._stats.succeeded(device, execution.times, requests, now_ns, rows)
        for request in requests:
            request.state = SETTLED
            request.times = execution.times
        self.count -= len(requests)
        self.running -= len(requests)
        for request, answer in zip(requests, answers, strict=True):
            assert answer is not None
            try:  # as `_reply` does
                request.done(request, answer)
            except Exception:
                logger.exception("an answer could not be handed over")

    def respond(self, request: InferRequest, answer: Answer, times: ExecutionTimes) -> None:
        """One answer of several, and not the last."""
        if request.state not in (RUNNING, ABANDONED):
            return
        self._stats.responded(request, answer, times)
        if request.state == RUNNING and request.partial is not None:
            try:
                request.partial(request, answer)
            except Exception:
                logger.exception("an answer could not be handed over")

    def finish(
        self,
        request: InferRequest,
        answer: Answer,
        device: DeviceStats,
        times: ExecutionTimes,
        now_ns: int,
    ) -> None:
        """The last answer of a running request, which is not settled with its execution."""
        if request.state not in (RUNNING, ABANDONED):
            return
        if self._decoupled:
            self._stats.responded(request, answer, times)
        self.settle_late(request, answer, device, times, now_ns)

    def settle_late(
        self,
        request: InferRequest,
        answer: Answer,
        device: DeviceStats,
        times: ExecutionTimes,
        now_ns: int,
    ) -> None:
        """The only answer of a running request, which was held back when its execution was settled."""
        if request.state not in (RUNNING, ABANDONED):
            return
        if request.state == ABANDONED:
            self._abandoned -= 1
            answer = cancelled()
        request.state = SETTLED
        request.times = times
        self.count -= 1
        self.running -= 1
        if isinstance(answer, InferResponse):
            self._stats.succeeded(device, times, (request,), now_ns)
        else:
            self._stats.failed_after_acceptance(request, answer, now_ns)
        _reply(request, answer)

    def _settle_those_done(self, execution: Execution, device: DeviceStats, now_ns: int) -> None:
        for request, answer in zip(execution.batch.requests, execution.answers, strict=True):
            if answer is not None:
                self.finish(request, answer, device, execution.times, now_ns)

    def _settle_each(self, execution: Execution, device: DeviceStats, now_ns: int) -> list[Answer]:
        answers: list[Answer] = []
        good: list[InferRequest] = []
        for request, answer in zip(execution.batch.requests, execution.answers, strict=True):
            if request.state == ABANDONED:
                self._abandoned -= 1
                answer = cancelled()
            assert answer is not None
            answers.append(answer)
            if isinstance(answer, InferResponse):
                good.append(request)
            else:
                self._stats.failed_after_acceptance(request, answer, now_ns)
        if good:
            self._stats.succeeded(device, execution.times, good, now_ns)
        return answers


def _reply(request: InferRequest, answer: Answer) -> None:
    # A closed connection must not cost the other requests of the batch their answers.
    try:
        request.done(request, answer)
    except Exception:
        logger.exception("an answer could not be handed over")
