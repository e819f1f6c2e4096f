"""An event loop and instances in pretend time: ten seconds of queue delay pass in microseconds."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.instances.execution_placement import ExecutionPlace, ExecutionPlacement
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.scheduling.dispatcher import Dispatcher, DispatcherParts
from inference_runtime.scheduling.dynamic_batcher import DynamicBatcher, SingleBatcher
from inference_runtime.scheduling.inflight import Inflight
from inference_runtime.scheduling.request_queue import RequestQueue
from inference_runtime.spec.messages import Answer, InferResponse, ResponseHead
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import DeviceStats
from tests.inference_runtime.scheduling.stage import Clients, fresh_stats

SECOND = 1_000_000_000
MS = 1_000_000
# A wait of less than a tick is spent in turns of the loop: each moves pretend time on by this much.
TURN_NS = 1000


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualLoop:
    """The part of an event loop that a scheduler uses."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self._soon: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._later: list[tuple[int, int, Timer, Callable[..., Any], tuple[Any, ...]]] = []
        self._serial = count()
        self.timers_set = 0

    def clock(self) -> int:
        return self.now_ns

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self._soon.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        timer = Timer()
        self.timers_set += 1
        due_ns = self.now_ns + max(round(delay * 1e9), 0)
        heapq.heappush(self._later, (due_ns, next(self._serial), timer, callback, args))
        return timer

    def turn(self) -> None:
        ready, self._soon = self._soon, []
        self.now_ns += TURN_NS
        for callback, args in ready:
            callback(*args)

    def advance(self, duration_ns: int) -> None:
        """Runs whatever becomes due until then."""
        end_ns = self.now_ns + duration_ns
        while self.now_ns < end_ns:
            if self._soon:
                self.turn()
                continue
            while self._later and self._later[0][2].cancelled:
                heapq.heappop(self._later)
            if not self._later or self._later[0][0] > end_ns:
                break
            due_ns, _, _, callback, args = heapq.heappop(self._later)
            self.now_ns = max(self.now_ns, due_ns)
            callback(*args)
        while self._soon:
            self.turn()
        self.now_ns = max(self.now_ns, end_ns)

    def settle(self) -> None:
        """The turns that are due now."""
        self.advance(10 * TURN_NS)


class PretendInstance:
    """Executes in `duration_ns` of pretend time and answers with no tensors."""

    def __init__(self, loop: VirtualLoop, device: DeviceStats, duration_ns: int = MS) -> None:
        self.can_die = False
        self.alive = True
        self.name = "pretend"
        self.loop = loop
        self.device = device
        self.duration_ns = duration_ns
        self.executed: list[list[Any]] = []
        self.started_ns: list[int] = []
        # None: the answer comes later, by `deliver`.
        self.answer: Callable[[Any], Answer | None] = _empty_answer

    def run_in_thread(self, batch: Batch, finished: Any) -> None:
        self.executed.append(list(batch.requests))
        self.started_ns.append(self.loop.now_ns)
        start_ns, end_ns = self.loop.now_ns, self.loop.now_ns + self.duration_ns
        answers = [self.answer(request) for request in batch.requests]
        faulty = any(isinstance(answer, RuntimeFault) for answer in answers)
        times = ExecutionTimes(start_ns, start_ns, end_ns, end_ns)
        execution = Execution(batch, answers, times, faulty, deferred=None in answers)
        self.loop.call_later(self.duration_ns / 1e9, finished, self, execution)

    async def stop(self) -> None: ...

    @property
    def rows(self) -> list[int]:
        """Of every execution, in order."""
        return [sum(r.plan.batch_size for r in batch) for batch in self.executed]


def _empty_answer(_: Any) -> Answer:
    return InferResponse(ResponseHead("batcher", "1", ()), ())


class VirtualStage:
    """A real dispatcher, queue, batcher and counters over pretend time and instances."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        instances: int = 1,
        duration_ns: int = MS,
        mortal: bool = False,
    ) -> None:
        self.loop = VirtualLoop()
        self.config = config
        self.stats = fresh_stats(config)
        self.instances = [
            PretendInstance(self.loop, self.stats.device(), duration_ns) for _ in range(instances)
        ]
        for instance in self.instances:
            instance.can_die = mortal
        batching = config.dynamic_batching
        self.dispatcher = Dispatcher(
            DispatcherParts(
                queue=RequestQueue(batching),
                batcher=DynamicBatcher(batching, config.max_batch_size)
                if batching
                else SingleBatcher(),
                group=InstanceGroup(self.instances),  # type: ignore[arg-type]
                placement=ExecutionPlacement(ExecutionPlace.THREAD),
                inflight=Inflight(self.stats),
                preserve_ordering=batching is not None and batching.preserve_ordering,
            ),
            loop=self.loop,  # type: ignore[arg-type]
            clock=self.loop.clock,
        )
        self.clients = Clients(config)
        self.outcomes = self.clients.outcomes

    @property
    def rows(self) -> list[int]:
        """Of every execution of every instance."""
        return [rows for instance in self.instances for rows in instance.rows]

    def send(self, *rows: int, **options: Any) -> list[Any]:
        """One request for each number of rows, all in one turn of the loop."""
        requests = [
            self.clients.request(count_, at_ns=self.loop.now_ns, **options) for count_ in rows
        ]
        for request in requests:
            self.dispatcher.submit(request)
        return requests

    def occupy(self, rows: int = 1) -> Any:
        """Lets an instance take a request of its own and stay busy with it."""
        (request,) = self.send(rows, length=99)
        self.loop.settle()
        return request
